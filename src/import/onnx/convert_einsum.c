// Einsum by decomposition: operands are joined from left to right; each join is a matrix product of transposed and reshaped
// operands, what neither the output nor a later operand names is summed. Repeated labels within one operand (diagonals)
// are refused. See converters.h.
#include <string.h>

#include "import/onnx/converters.h"

enum { ELLIPSIS = 128 }; // Labels of the dimensions under "...": ELLIPSIS + number, counted from the right.

typedef struct term {
  itg_tensor *tensor;
  int rank;
  uint8_t labels[ITG_MAX_RANK];
} term;

static int find(const term *t, uint8_t label) {
  for (int i = 0; i < t->rank; i++) {
    if (t->labels[i] == label) return i;
  }
  return -1;
}

static bool is_letter(uint8_t c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Labels of one side of the equation. `dots` is how many dimensions "..." stands for.
static itg_status read_labels(const itg_onnx_importer *importer, itg_span text, int dots, term *out) {
  out->rank = 0;
  for (size_t i = 0; i < text.size; i++) {
    const uint8_t c = text.data[i];
    if (c == ' ') continue;
    const bool ellipsis = c == '.' && i + 2 < text.size && text.data[i + 1] == '.' && text.data[i + 2] == '.';
    if (!ellipsis && !is_letter(c)) ITG_ONNX_REFUSE(importer, "character '%c' in the equation", c);
    for (int k = ellipsis ? dots : 1; k > 0; k--) {
      const uint8_t label = ellipsis ? (uint8_t)(ELLIPSIS + k - 1) : c;
      if (out->rank == ITG_MAX_RANK) ITG_ONNX_REFUSE(importer, "more than %d dimensions", ITG_MAX_RANK);
      if (find(out, label) >= 0)
        ITG_ONNX_REFUSE(importer, "%s", "a label that repeats within one operand is not supported");
      out->labels[out->rank++] = label;
    }
    if (ellipsis) i += 2;
  }
  return ITG_OK;
}

static itg_status read_operand(itg_onnx_importer *importer, size_t index, itg_span text, term *out, int *most_dots) {
  int letters = 0, dots = 0;
  for (size_t i = 0; i < text.size; i++) {
    letters += is_letter(text.data[i]);
    dots |= text.data[i] == '.';
  }
  ITG_TRY(itg_onnx_required(importer, index, &out->tensor));
  const int covered = dots ? out->tensor->shape.rank - letters : 0;
  if (covered < 0) ITG_ONNX_FAIL(importer, ITG_ERROR_SHAPE, "operand %zu has too few dimensions", index);
  if (covered > *most_dots) *most_dots = covered;
  ITG_TRY(read_labels(importer, text, covered, out));
  if (out->rank != out->tensor->shape.rank)
    ITG_ONNX_FAIL(importer, ITG_ERROR_SHAPE, "operand %zu has %d dimensions, the equation %d", index,
                  (int)out->tensor->shape.rank, out->rank);
  return ITG_OK;
}

// Sums over the labels that `needed` does not have.
static itg_status sum_out(itg_onnx_importer *importer, const bool needed[256], term *t) {
  itg_attributes attributes = {0};
  int kept = 0;
  for (int i = 0; i < t->rank; i++) {
    if (needed[t->labels[i]])
      t->labels[kept++] = t->labels[i];
    else
      attributes.reduce.axes |= 1u << i;
  }
  t->rank = kept;
  if (attributes.reduce.axes == 0) return ITG_OK;
  return itg_onnx_unary(importer, "sum", ITG_OP_REDUCE_SUM, &attributes, t->tensor, &t->tensor);
}

// Brings a term's dimensions into the order of `labels`.
static itg_status arrange(itg_onnx_importer *importer, const char *part, const uint8_t *labels, term *t) {
  int32_t permutation[ITG_MAX_RANK];
  for (int i = 0; i < t->rank; i++) permutation[i] = find(t, labels[i]);
  ITG_TRY(itg_onnx_transpose(importer, part, t->tensor, permutation, &t->tensor));
  memcpy(t->labels, labels, (size_t)t->rank);
  return ITG_OK;
}

// The shape [batch dimensions, M, K] (or K, N) of an arranged operand with `batch` and `left` leading labels.
static itg_status matrix_shape(const itg_onnx_importer *importer, const itg_shape *shape, int batch, int left,
                               itg_shape *out) {
  *out = itg_shape_of(batch, shape->dims);
  out->rank = batch + 2;
  ITG_TRY(itg_onnx_product(importer, shape, batch, batch + left, &out->dims[batch]));
  return itg_onnx_product(importer, shape, batch + left, shape->rank, &out->dims[batch + 1]);
}

static int collect(const term *from, const term *other, const bool needed[256], bool shared, bool wanted,
                   uint8_t *labels) {
  int count = 0;
  for (int i = 0; i < from->rank; i++) {
    const uint8_t label = from->labels[i];
    if ((find(other, label) >= 0) == shared && needed[label] == wanted) labels[count++] = label;
  }
  return count;
}

// Joins two terms; `needed` are the labels of the output and of later operands.
static itg_status join(itg_onnx_importer *importer, const bool needed[256], term *a, term *b) {
  bool either[256];
  memcpy(either, needed, sizeof either);
  for (int i = 0; i < b->rank; i++) either[b->labels[i]] = true;
  ITG_TRY(sum_out(importer, either, a));
  memcpy(either, needed, sizeof either);
  for (int i = 0; i < a->rank; i++) either[a->labels[i]] = true;
  ITG_TRY(sum_out(importer, either, b));
  uint8_t left[3 * ITG_MAX_RANK], right[3 * ITG_MAX_RANK], inner[ITG_MAX_RANK], only_b[ITG_MAX_RANK];
  const int batch = collect(a, b, needed, true, true, left);
  const int rows = collect(a, b, needed, false, true, left + batch);
  const int sums = collect(a, b, needed, true, false, inner);
  const int columns = collect(b, a, needed, false, true, only_b);
  memcpy(left + batch + rows, inner, (size_t)sums);
  memcpy(right, left, (size_t)batch);
  memcpy(right + batch, inner, (size_t)sums);
  memcpy(right + batch + sums, only_b, (size_t)columns);
  ITG_TRY(arrange(importer, "left", left, a));
  ITG_TRY(arrange(importer, "right", right, b));
  if (batch + rows + columns > ITG_MAX_RANK || batch + 2 > ITG_MAX_RANK)
    ITG_ONNX_REFUSE(importer, "more than %d dimensions", ITG_MAX_RANK);
  itg_shape a_shape, b_shape, shape = {.rank = batch + rows + columns};
  for (int i = 0; i < rows; i++) shape.dims[batch + i] = a->tensor->shape.dims[batch + i];
  for (int i = 0; i < columns; i++) shape.dims[batch + rows + i] = b->tensor->shape.dims[batch + sums + i];
  ITG_TRY(matrix_shape(importer, &a->tensor->shape, batch, rows, &a_shape));
  ITG_TRY(matrix_shape(importer, &b->tensor->shape, batch, sums, &b_shape));
  itg_tensor *factors[2], *product;
  ITG_TRY(itg_onnx_reshape(importer, "left", a->tensor, &a_shape, &factors[0]));
  ITG_TRY(itg_onnx_reshape(importer, "right", b->tensor, &b_shape, &factors[1]));
  ITG_TRY(itg_onnx_emit(importer, "product", ITG_OP_MATMUL, NULL, NULL, 2, factors, &product));
  memcpy(shape.dims, product->shape.dims, (size_t)batch * sizeof shape.dims[0]);
  ITG_TRY(itg_onnx_reshape(importer, "product", product, &shape, &a->tensor));
  a->rank = shape.rank;
  memcpy(a->labels, left, (size_t)(batch + rows));
  memcpy(a->labels + batch + rows, only_b, (size_t)columns);
  return ITG_OK;
}

// Without "->" the output has the dimensions under "..." and then, in alphabetical order, the labels that occur once.
static void implicit_output(const term *terms, size_t count, int dots, term *out) {
  out->rank = 0;
  for (int k = dots; k > 0 && out->rank < ITG_MAX_RANK; k--) out->labels[out->rank++] = (uint8_t)(ELLIPSIS + k - 1);
  for (int c = 'A'; c <= 'z'; c++) {
    int uses = 0;
    for (size_t i = 0; i < count; i++) uses += find(&terms[i], (uint8_t)c) >= 0;
    if (uses == 1 && is_letter((uint8_t)c) && out->rank < ITG_MAX_RANK) out->labels[out->rank++] = (uint8_t)c;
  }
}

static itg_status join_all(itg_onnx_importer *importer, term *terms, size_t count, const term *output) {
  for (size_t i = 0; i < count; i++) {
    bool needed[256] = {false};
    for (int k = 0; k < output->rank; k++) needed[output->labels[k]] = true;
    for (size_t later = i + 1; later < count; later++) {
      for (int k = 0; k < terms[later].rank; k++) needed[terms[later].labels[k]] = true;
    }
    ITG_TRY(i == 0 ? sum_out(importer, needed, &terms[0]) : join(importer, needed, &terms[0], &terms[i]));
  }
  for (int k = 0; k < output->rank; k++) {
    if (find(&terms[0], output->labels[k]) < 0)
      ITG_ONNX_FAIL(importer, ITG_ERROR_FORMAT, "%s", "the output has a label that no operand has");
  }
  if (terms[0].rank != output->rank) ITG_ONNX_FAIL(importer, ITG_ERROR_FORMAT, "%s", "the equation is not valid");
  ITG_TRY(arrange(importer, NULL, output->labels, &terms[0]));
  return itg_onnx_finish(importer, terms[0].tensor);
}

itg_status itg_onnx_convert_einsum(itg_onnx_importer *importer, int op) {
  (void)op;
  enum { MAX_OPERANDS = 16 };
  term terms[MAX_OPERANDS] = {0}, output = {0};
  const itg_span equation = itg_onnx_get_string(importer, "equation");
  const size_t count = importer->node->inputs.count;
  if (equation.size == 0) ITG_ONNX_FAIL(importer, ITG_ERROR_FORMAT, "%s", "the equation is missing");
  if (count < 1 || count > MAX_OPERANDS) ITG_ONNX_REFUSE(importer, "%zu operands", count);
  size_t start = 0, operand = 0, arrow = equation.size;
  for (size_t i = 0; i + 1 < equation.size; i++) {
    if (equation.data[i] == '-' && equation.data[i + 1] == '>') {
      arrow = i;
      break;
    }
  }
  int dots = 0;
  for (size_t i = 0; i <= arrow; i++) {
    if (i < arrow && equation.data[i] != ',') continue;
    if (operand == count)
      ITG_ONNX_FAIL(importer, ITG_ERROR_FORMAT, "%s", "the equation has more operands than the node");
    ITG_TRY(read_operand(importer, operand, (itg_span){equation.data + start, i - start}, &terms[operand], &dots));
    operand++;
    start = i + 1;
  }
  if (operand != count)
    ITG_ONNX_FAIL(importer, ITG_ERROR_FORMAT, "the equation has %zu operands, the node %zu", operand, count);
  if (arrow < equation.size)
    ITG_TRY(read_labels(importer, (itg_span){equation.data + arrow + 2, equation.size - arrow - 2}, dots, &output));
  else
    implicit_output(terms, count, dots, &output);
  return join_all(importer, terms, count, &output);
}
