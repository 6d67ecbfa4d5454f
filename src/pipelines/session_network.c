// An integer session as a pipeline sees it: floats in, floats out.
#include "base/status.h"
#include "intaglio/pipelines.h"

static itg_status run(void *context, const float *const *inputs, float *const *outputs, itg_diagnostic *diagnostic) {
  const itg_session_network *network = context;
  const size_t input_count = itg_model_input_count(network->model);
  const size_t output_count = itg_model_output_count(network->model);
  for (size_t i = 0; i < input_count; i++)
    ITG_TRY(
        itg_session_set_input(network->session, i, inputs[i], itg_model_input(network->model, i)->count, diagnostic));
  ITG_TRY(itg_session_run(network->session, diagnostic));
  for (size_t i = 0; i < output_count; i++)
    ITG_TRY(itg_session_get_output(network->session, i, outputs[i], itg_model_output(network->model, i)->count,
                                   diagnostic));
  return ITG_OK;
}

static const itg_tensor_info *input(void *context, size_t index) {
  return itg_model_input(((const itg_session_network *)context)->model, index);
}

static const itg_tensor_info *output(void *context, size_t index) {
  return itg_model_output(((const itg_session_network *)context)->model, index);
}

static const char *text(void *context, const char *name, size_t *size) {
  return itg_model_metadata(((const itg_session_network *)context)->model, name, size);
}

itg_network itg_network_from_session(itg_session_network *network) {
  return (itg_network){.context = network,
                       .input_count = itg_model_input_count(network->model),
                       .output_count = itg_model_output_count(network->model),
                       .run = run,
                       .input = input,
                       .output = output,
                       .text = text};
}
