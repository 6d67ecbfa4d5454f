// A float network as pipelines see it: floats in, floats out, also where the model takes or gives integers.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compile/float_network.h"
#include "intaglio/pipelines.h"
#include "tensor/dtype.h"

enum { MAX_SLOTS = 64 };

static void from_floats(itg_dtype dtype, const float *values, void *out, size_t count) {
  for (size_t i = 0; i < count; i++) {
    const int64_t value = fabsf(values[i]) < 0x1p62f ? (int64_t)values[i] : 0;
    switch (itg_dtype_size(dtype)) {
    case 1: ((uint8_t *)out)[i] = (uint8_t)value; break;
    case 2: ((uint16_t *)out)[i] = (uint16_t)value; break;
    case 4: ((uint32_t *)out)[i] = (uint32_t)value; break;
    default: ((uint64_t *)out)[i] = (uint64_t)value;
    }
  }
}

// `own` holds a buffer for every input and output that is not of floats.
static itg_status run_with(itg_float_network *network, const float *const *inputs, float *const *outputs, void **own,
                           itg_diagnostic *diagnostic) {
  const void *in[MAX_SLOTS] = {NULL};
  void *out[MAX_SLOTS] = {NULL};
  const size_t input_count = itg_float_network_input_count(network);
  const size_t output_count = itg_float_network_output_count(network);
  for (size_t i = 0; i < input_count + output_count; i++) {
    const bool input = i < input_count;
    const itg_tensor_info *info =
        input ? itg_float_network_input(network, i) : itg_float_network_output(network, i - input_count);
    if (!itg_dtype_is_float(info->dtype)) {
      own[i] = calloc(info->count + 1, itg_dtype_size(info->dtype));
      ITG_TRY_MEMORY(own[i], diagnostic);
      if (input) from_floats(info->dtype, inputs[i], own[i], info->count);
    }
    if (input)
      in[i] = own[i] ? own[i] : inputs[i];
    else
      out[i - input_count] = own[i] ? own[i] : outputs[i - input_count];
  }
  ITG_TRY(itg_float_network_run(network, in, out, diagnostic));
  for (size_t i = 0; i < output_count; i++) {
    const itg_tensor_info *info = itg_float_network_output(network, i);
    if (own[input_count + i]) itg_public_to_float(info->dtype, own[input_count + i], outputs[i], info->count);
  }
  return ITG_OK;
}

static itg_status run(void *context, const float *const *inputs, float *const *outputs, itg_diagnostic *diagnostic) {
  void *own[MAX_SLOTS] = {NULL};
  if (itg_float_network_input_count(context) + itg_float_network_output_count(context) > MAX_SLOTS)
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, NULL, "a network with more than %d inputs and outputs", MAX_SLOTS);
  const itg_status status = run_with(context, inputs, outputs, own, diagnostic);
  for (size_t i = 0; i < MAX_SLOTS; i++) free(own[i]);
  return status;
}

static const itg_tensor_info *input(void *context, size_t index) { return itg_float_network_input(context, index); }
static const itg_tensor_info *output(void *context, size_t index) { return itg_float_network_output(context, index); }

static const char *text(void *context, const char *name, size_t *size) {
  const char *found = strcmp(name, "source") == 0 ? itg_float_network_metadata(context) : NULL;
  if (found) *size = strlen(found);
  return found;
}

itg_network itg_network_from_float(itg_float_network *network) {
  return (itg_network){.context = network,
                       .input_count = itg_float_network_input_count(network),
                       .output_count = itg_float_network_output_count(network),
                       .run = run,
                       .input = input,
                       .output = output,
                       .text = text};
}
