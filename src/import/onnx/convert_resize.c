// Resize and Upsample: output sizes and scales of every dimension are resolved here. See converters.h.
#include <math.h>

#include "import/onnx/converters.h"

typedef struct choice {
  const char *name;
  int32_t value;
} choice;

static itg_status choose(const itg_onnx_importer *importer, const char *attribute, const choice *choices, size_t count,
                         int32_t *value) {
  const itg_span text = itg_onnx_get_string(importer, attribute);
  if (text.size == 0) return ITG_OK; // Keeps the default.
  for (size_t i = 0; i < count; i++) {
    if (!itg_span_equals(text, choices[i].name)) continue;
    *value = choices[i].value;
    return ITG_OK;
  }
  ITG_ONNX_REFUSE(importer, "%s '%.*s' is not supported", attribute, text.size < 60 ? (int)text.size : 60,
                  (const char *)text.data);
}

static itg_status read_modes(const itg_onnx_importer *importer, itg_resize_attributes *resize) {
  static const choice modes[] = {{"nearest", ITG_RESIZE_NEAREST},
                                 {"linear", ITG_RESIZE_LINEAR},
                                 {"bilinear", ITG_RESIZE_LINEAR},
                                 {"cubic", ITG_RESIZE_CUBIC}};
  static const choice coordinates[] = {{"half_pixel", ITG_RESIZE_HALF_PIXEL},
                                       {"align_corners", ITG_RESIZE_ALIGN_CORNERS},
                                       {"asymmetric", ITG_RESIZE_ASYMMETRIC},
                                       {"pytorch_half_pixel", ITG_RESIZE_PYTORCH_HALF_PIXEL},
                                       {"tf_crop_and_resize", ITG_RESIZE_TF_CROP},
                                       {"tf_half_pixel_for_nn", ITG_RESIZE_TF_HALF_PIXEL},
                                       {"half_pixel_symmetric", ITG_RESIZE_HALF_PIXEL_SYMMETRIC}};
  static const choice roundings[] = {{"round_prefer_floor", ITG_NEAREST_ROUND_PREFER_FLOOR},
                                     {"round_prefer_ceil", ITG_NEAREST_ROUND_PREFER_CEIL},
                                     {"floor", ITG_NEAREST_FLOOR},
                                     {"ceil", ITG_NEAREST_CEIL}};
  int64_t exclude, antialias;
  resize->mode = ITG_RESIZE_NEAREST;
  resize->coordinates = importer->opset < 11 ? ITG_RESIZE_ASYMMETRIC : ITG_RESIZE_HALF_PIXEL;
  resize->nearest_rounding = importer->opset < 11 ? ITG_NEAREST_FLOOR : ITG_NEAREST_ROUND_PREFER_FLOOR;
  ITG_TRY(choose(importer, "mode", modes, 4, &resize->mode));
  ITG_TRY(choose(importer, "coordinate_transformation_mode", coordinates, 7, &resize->coordinates));
  ITG_TRY(choose(importer, "nearest_mode", roundings, 4, &resize->nearest_rounding));
  ITG_TRY(itg_onnx_get_int(importer, "exclude_outside", 0, &exclude));
  ITG_TRY(itg_onnx_get_int(importer, "antialias", 0, &antialias));
  ITG_TRY(itg_onnx_get_float(importer, "cubic_coeff_a", -0.75, &resize->cubic_a));
  ITG_TRY(itg_onnx_get_float(importer, "extrapolation_value", 0, &resize->extrapolation));
  resize->exclude_outside = exclude != 0;
  resize->antialias = antialias != 0;
  return ITG_OK;
}

// Axes that scales, sizes and roi speak of: all, or the attribute's (opset 18).
static itg_status read_axes(const itg_onnx_importer *importer, int32_t rank, int32_t *axes, size_t *count) {
  int64_t given[ITG_MAX_RANK];
  ITG_TRY(itg_onnx_get_ints(importer, "axes", given, ITG_MAX_RANK, count));
  for (size_t i = 0; i < *count; i++) ITG_TRY(itg_onnx_axis(importer, given[i], rank, &axes[i]));
  if (*count == 0) {
    *count = (size_t)rank;
    for (int32_t i = 0; i < rank; i++) axes[i] = i;
  }
  return ITG_OK;
}

static itg_status apply_scales(const itg_onnx_importer *importer, const double *scales, const int32_t *axes,
                               size_t count, const itg_shape *in, itg_resize_attributes *resize, itg_shape *out) {
  for (size_t i = 0; i < count; i++) {
    const double size = floor((double)in->dims[axes[i]] * scales[i]);
    if (!(scales[i] > 0) || !(size <= 0x1p40))
      ITG_ONNX_FAIL(importer, ITG_ERROR_SHAPE, "scale %g is out of range", scales[i]);
    resize->scale[axes[i]] = scales[i];
    out->dims[axes[i]] = (int64_t)size;
  }
  return ITG_OK;
}

static itg_status apply_sizes(const itg_onnx_importer *importer, const int64_t *sizes, const int32_t *axes,
                              size_t count, const itg_shape *in, itg_resize_attributes *resize, itg_shape *out) {
  static const choice policies[] = {{"stretch", 0}, {"not_larger", 1}, {"not_smaller", 2}};
  int32_t policy = 0;
  double common = 0;
  ITG_TRY(choose(importer, "keep_aspect_ratio_policy", policies, 3, &policy));
  for (size_t i = 0; i < count; i++) {
    const int64_t from = in->dims[axes[i]];
    if (sizes[i] < 0 || sizes[i] > (int64_t)1 << 40 || (from == 0 && sizes[i] != 0))
      ITG_ONNX_FAIL(importer, ITG_ERROR_SHAPE, "size %lld is out of range", (long long)sizes[i]);
    const double scale = from && sizes[i] ? (double)sizes[i] / (double)from : 1;
    common = i == 0 || (policy == 1 ? scale < common : scale > common) ? scale : common;
    resize->scale[axes[i]] = scale;
    out->dims[axes[i]] = sizes[i];
  }
  for (size_t i = 0; i < count && policy != 0; i++) {
    resize->scale[axes[i]] = common;
    out->dims[axes[i]] = (int64_t)floor((double)in->dims[axes[i]] * common + 0.5);
  }
  return ITG_OK;
}

static itg_status read_region(const itg_onnx_importer *importer, const int32_t *axes, size_t count,
                              itg_resize_attributes *resize) {
  itg_tensor *tensor;
  double values[2 * ITG_MAX_RANK];
  size_t found;
  for (int i = 0; i < ITG_MAX_RANK; i++) resize->roi_end[i] = 1;
  if (importer->opset < 11 || resize->coordinates != ITG_RESIZE_TF_CROP) return ITG_OK;
  ITG_TRY(itg_onnx_required(importer, 1, &tensor));
  ITG_TRY(itg_onnx_constant_doubles(importer, tensor, "roi", values, 2 * ITG_MAX_RANK, &found));
  if (found != 2 * count) ITG_ONNX_FAIL(importer, ITG_ERROR_SHAPE, "%zu region values for %zu axes", found, count);
  for (size_t i = 0; i < count; i++) {
    resize->roi_start[axes[i]] = values[i];
    resize->roi_end[axes[i]] = values[count + i];
  }
  return ITG_OK;
}

// Scales come as input 1 (opset 9 and 10) or 2, or as an attribute (Upsample of opset 7); sizes as input 3.
static itg_status read_scales(const itg_onnx_importer *importer, double *scales, size_t *count) {
  *count = 0;
  const itg_onnx_attribute *attribute = itg_onnx_attribute_find(importer, "scales");
  if (attribute) {
    float values[ITG_MAX_RANK];
    ITG_TRY(itg_onnx_attribute_floats(attribute, importer->diagnostic, values, ITG_MAX_RANK, count));
    if (*count > ITG_MAX_RANK) ITG_ONNX_FAIL(importer, ITG_ERROR_SHAPE, "%zu scales", *count);
    for (size_t i = 0; i < *count; i++) scales[i] = (double)values[i];
    return ITG_OK;
  }
  itg_tensor *tensor;
  ITG_TRY(itg_onnx_input(importer, importer->opset < 11 ? 1 : 2, &tensor));
  return tensor ? itg_onnx_constant_doubles(importer, tensor, "scales", scales, ITG_MAX_RANK, count) : ITG_OK;
}

itg_status itg_onnx_convert_resize(itg_onnx_importer *importer, int op) {
  itg_tensor *x, *tensor = NULL, *y;
  itg_attributes attributes = {0};
  itg_resize_attributes *resize = &attributes.resize;
  int32_t axes[ITG_MAX_RANK];
  double scales[ITG_MAX_RANK];
  int64_t sizes[ITG_MAX_RANK];
  size_t count, scale_count, size_count = 0;
  ITG_TRY(itg_onnx_required(importer, 0, &x));
  ITG_TRY(read_modes(importer, resize));
  ITG_TRY(read_axes(importer, x->shape.rank, axes, &count));
  ITG_TRY(read_region(importer, axes, count, resize));
  ITG_TRY(read_scales(importer, scales, &scale_count));
  if (importer->opset >= 11) ITG_TRY(itg_onnx_input(importer, 3, &tensor));
  if (tensor) ITG_TRY(itg_onnx_constant_ints(importer, tensor, "sizes", sizes, ITG_MAX_RANK, &size_count));
  if ((scale_count != 0) == (size_count != 0) || (scale_count ? scale_count : size_count) != count)
    ITG_ONNX_FAIL(importer, ITG_ERROR_SHAPE, "%zu scales and %zu sizes for %zu axes; one of them is needed",
                  scale_count, size_count, count);
  itg_shape shape = x->shape;
  for (int i = 0; i < ITG_MAX_RANK; i++) resize->scale[i] = 1;
  ITG_TRY(scale_count ? apply_scales(importer, scales, axes, count, &x->shape, resize, &shape)
                      : apply_sizes(importer, sizes, axes, count, &x->shape, resize, &shape));
  ITG_TRY(itg_onnx_emit(importer, NULL, (itg_op)op, &attributes, &shape, 1, &x, &y));
  return itg_onnx_finish(importer, y);
}
