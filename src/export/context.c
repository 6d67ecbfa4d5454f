// The NPU contexts of a file: alone, or as an ONNX model of one EPContext node that ONNX Runtime's QNN provider runs.
#include <string.h>

#include "export/onnx_writer.h"
#include "intaglio/compiler.h"
#include "lower/qnn/prepare.h"
#include "npu/qnn/stored.h"
#include "run/model.h"

enum { OPSET = 21 };

static itg_status find_context(const itg_model *model, const char *target, itg_diagnostic *diagnostic,
                               itg_qnn_stored *out) {
  itg_span body = {0};
  ITG_TRY(itg_qnn_stored_find(&model->container, target, diagnostic, &body));
  return itg_qnn_stored_parse(body, diagnostic, out);
}

itg_status itg_export_qnn_context(const itg_model *model, const char *target, const char *path,
                                  itg_diagnostic *diagnostic) {
  itg_qnn_stored stored = {0};
  ITG_TRY(find_context(model, target, diagnostic, &stored));
  const itg_status status = itg_write_file(path, stored.blob.data, stored.blob.size, diagnostic);
  itg_qnn_stored_free(&stored);
  return status;
}

typedef struct port_names {
  const char *codes, *scale, *zero, *real;
} port_names;

// Names around one input or output of the context, which has the suffixed name inside.
static bool name_port(itg_arena *arena, const itg_tensor *tensor, port_names *out) {
  const char *suffixes[3] = {ITG_QNN_CODES_SUFFIX, "/scale", "/zero"};
  const char **names[3] = {&out->codes, &out->scale, &out->zero};
  const size_t length = strlen(tensor->name);
  for (size_t i = 0; i < 3; i++) {
    char *name = itg_arena_allocate(arena, length + strlen(suffixes[i]) + 1);
    if (!name) return false;
    memcpy(name, tensor->name, length);
    strcpy(name + length, suffixes[i]);
    *names[i] = name;
  }
  out->real = tensor->name;
  return true;
}

// The node between the codes of a port and the real values that a user sees.
static void add_port(itg_onnx_writer *onnx, const itg_tensor *tensor, const port_names *names, bool is_input) {
  const char *from = is_input ? names->real : names->codes, *to = is_input ? names->codes : names->real;
  if (!tensor->encoding) {
    itg_onnx_writer_node(onnx, "Identity", NULL, names->zero, &from, 1, &to, 1, NULL);
    return;
  }
  itg_onnx_writer_encoding(onnx, names->scale, names->zero, tensor->dtype, tensor->encoding->scales[0],
                           tensor->encoding->zero_points ? tensor->encoding->zero_points[0] : 0);
  itg_onnx_writer_node(onnx, is_input ? "QuantizeLinear" : "DequantizeLinear", NULL, to,
                       (const char *[]){from, names->scale, names->zero}, 3, &to, 1, NULL);
}

static itg_status write_epcontext(const itg_graph *graph, const itg_qnn_stored *stored, itg_arena *arena,
                                  itg_onnx_writer *onnx, itg_diagnostic *diagnostic) {
  const int32_t inputs = graph->input_count, outputs = graph->output_count;
  const size_t ports = (size_t)inputs + (size_t)outputs;
  const char **codes = itg_arena_array(arena, ports, sizeof codes[0]);
  port_names *names = itg_arena_array(arena, ports, sizeof names[0]);
  ITG_TRY_MEMORY(codes && names, diagnostic);
  for (size_t i = 0; i < ports; i++) {
    const bool is_input = i < (size_t)inputs;
    const itg_tensor *tensor = is_input ? graph->inputs[i] : graph->outputs[i - (size_t)inputs];
    ITG_TRY_MEMORY(name_port(arena, tensor, &names[i]), diagnostic);
    codes[i] = names[i].codes;
    itg_onnx_writer_value(onnx, names[i].codes, tensor->dtype, &tensor->shape);
    const itg_dtype dtype = tensor->encoding ? ITG_DTYPE_F32 : tensor->dtype;
    if (is_input) {
      itg_onnx_writer_input(onnx, tensor->name, dtype, &tensor->shape);
      add_port(onnx, tensor, &names[i], true);
    } else {
      itg_onnx_writer_output(onnx, tensor->name, dtype, &tensor->shape);
    }
  }
  itg_onnx_writer_attributes attributes = {0};
  itg_onnx_writer_set_integer(&attributes, "main_context", 1);
  itg_onnx_writer_set_integer(&attributes, "embed_mode", 1);
  itg_onnx_writer_set_string(&attributes, "ep_cache_context", stored->blob.data, stored->blob.size);
  itg_onnx_writer_set_string(&attributes, "source", "QNN", 3);
  itg_onnx_writer_set_string(&attributes, "ep_sdk_version", stored->header.build, strlen(stored->header.build));
  itg_onnx_writer_node(onnx, "EPContext", "com.microsoft", ITG_QNN_GRAPH_NAME, codes, (size_t)inputs, codes + inputs,
                       (size_t)outputs, &attributes);
  for (int32_t i = 0; i < outputs; i++) add_port(onnx, graph->outputs[i], &names[inputs + i], false);
  return ITG_OK;
}

// The exported file has no place for what the CPU computes beside the context.
static itg_status check_whole(const itg_graph *graph, const itg_qnn_stored *stored, itg_diagnostic *diagnostic) {
  const int32_t inputs = graph->input_count, outputs = graph->output_count;
  bool whole = stored->header.input_count == (uint32_t)inputs && stored->header.output_count == (uint32_t)outputs;
  for (int32_t i = 0; whole && i < inputs; i++) whole = strcmp(stored->inputs[i].name, graph->inputs[i]->name) == 0;
  for (int32_t i = 0; whole && i < outputs; i++) whole = strcmp(stored->outputs[i].name, graph->outputs[i]->name) == 0;
  if (!whole)
    ITG_FAIL(diagnostic, ITG_ERROR_UNSUPPORTED, stored->header.target,
             "the context holds a part of the network only (inspect shows which nodes the CPU computes); export --qdq "
             "or --qnn-context instead");
  return ITG_OK;
}

itg_status itg_export_epcontext(const itg_model *model, const char *target, const char *path,
                                itg_diagnostic *diagnostic) {
  itg_qnn_stored stored = {0};
  ITG_TRY(find_context(model, target, diagnostic, &stored));
  itg_arena arena = {0};
  itg_onnx_writer onnx = {0};
  itg_status status = check_whole(model->container.graph, &stored, diagnostic);
  if (status == ITG_OK) status = write_epcontext(model->container.graph, &stored, &arena, &onnx, diagnostic);
  if (status == ITG_OK) status = itg_onnx_writer_finish(&onnx, OPSET, path, diagnostic);
  itg_onnx_writer_discard(&onnx);
  itg_arena_free(&arena);
  itg_qnn_stored_free(&stored);
  return status;
}
