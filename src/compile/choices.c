// See choices.h. Two programs say what can be chosen: where a8w8+s16 stores 8 bits, products read 8 bits and could read 16; where
// it stores 16 and a8w8 stores 8, storage can be chosen. A Convert (an IDENTITY between two encodings) belongs to the node
// whose output it converts, because a rule that widens that output removes it.
#include "compile/choices.h"

#include <string.h>

#include "compile/cost.h"
#include "quantize/plan.h"

typedef struct unit { // At the node that stands for it.
  size_t node_count, operand_count, storage_count;
  size_t operand_item, storage_item; // 1 + number of the choice.
  bool is_blocked;                   // A member's bits cannot be set by a rule.
} unit;

typedef struct finder {
  const itg_built *wide, *narrow;
  const itg_target *target;
  itg_arena *arena;
  itg_node **nodes; // By node->index.
  size_t *parent;   // Union-find.
  unit *units;
  size_t count;
} finder;

static size_t root_of(const finder *f, const itg_node *node) {
  size_t i = (size_t)node->index;
  while (f->parent[i] != i) {
    f->parent[i] = f->parent[f->parent[i]]; // Halves the path.
    i = f->parent[i];
  }
  return i;
}

static bool is_convert(const itg_node *node) {
  return node->op == ITG_OP_IDENTITY && node->inputs[0]->encoding &&
         !itg_encoding_equal(node->inputs[0]->encoding, node->outputs[0]->encoding);
}

static bool is_activation(const itg_tensor *tensor) {
  return tensor && !tensor->data && tensor->dtype == ITG_DTYPE_F32 && tensor->encoding;
}

static void tie(const finder *f, const itg_node *a, const itg_node *b) {
  const size_t x = root_of(f, a), y = root_of(f, b);
  f->parent[x < y ? y : x] = x < y ? x : y;
}

static void tie_units(const finder *f) {
  for (size_t i = 0; i < f->count; i++) {
    const itg_node *node = f->nodes[i];
    for (int32_t k = 0; k < node->input_count; k++) {
      const itg_tensor *input = node->inputs[k];
      if (!is_activation(input) || !input->producer) continue;
      if (is_convert(node) || (itg_op_moves_codes(node->op) && is_activation(node->outputs[0]) &&
                               itg_encoding_equal(input->encoding, node->outputs[0]->encoding)))
        tie(f, node, input->producer);
    }
  }
}

static bool feeds_second_operand(const itg_tensor *tensor) {
  for (int32_t u = 0; u < tensor->user_count; u++) {
    const itg_node *user = tensor->users[u];
    if (user->op == ITG_OP_MATMUL && user->inputs[1] == tensor) return true;
    if (user->op == ITG_OP_ATTENTION && user->inputs[0] != tensor) return true;
    if (itg_op_moves_codes(user->op) && feeds_second_operand(user->outputs[0])) return true;
  }
  return false;
}

static bool is_narrow(const itg_tensor *tensor) {
  return is_activation(tensor) && tensor->encoding->storage == ITG_DTYPE_U8;
}

// A tensor that is rounded to 8 bits for products, where it need not be.
static bool is_operand(const itg_node *producer, const itg_tensor *tensor) {
  return is_narrow(tensor) && (!itg_op_moves_codes(producer->op) || is_convert(producer)) &&
         !feeds_second_operand(tensor);
}

// The encoding of a tensor that is wide here and narrow in the other program, or NULL.
static const itg_encoding *narrow_encoding(const finder *f, const itg_node *producer, const itg_tensor *tensor) {
  if (!is_activation(tensor) || tensor->encoding->storage != ITG_DTYPE_U16 || is_convert(producer) ||
      itg_op_moves_codes(producer->op))
    return NULL;
  const itg_tensor *other = itg_graph_find(f->narrow->twin, tensor->name);
  return other && is_narrow(other) ? other->encoding : NULL;
}

static double element_count(const itg_tensor *tensor) {
  size_t count;
  return itg_shape_count(&tensor->shape, &count) ? (double)count : 0;
}

// The node of the program that computes a reader's output; NULL where it was fused away.
static const itg_node *lowered(const finder *f, const itg_node *reader) {
  const itg_tensor *output = itg_graph_find(f->wide->legal, reader->outputs[0]->name);
  return output ? output->producer : NULL;
}

// What it costs more when the readers of a tensor, also behind views, take 16 bits.
static double operand_cost(const finder *f, const itg_tensor *tensor) {
  double cost = 0;
  for (int32_t u = 0; u < tensor->user_count; u++) {
    const itg_node *user = tensor->users[u], *program = lowered(f, user);
    if (is_convert(user)) continue;
    if (program)
      cost += itg_node_cost(program, f->target, ITG_DTYPE_U16) - itg_node_cost(program, f->target, ITG_DTYPE_U8);
    if (itg_op_moves_codes(user->op)) cost += operand_cost(f, user->outputs[0]);
  }
  return cost;
}

static void count_tensors(finder *f) {
  for (size_t i = 0; i < f->count; i++) {
    const itg_node *node = f->nodes[i];
    unit *u = &f->units[root_of(f, node)];
    if (!is_convert(node)) u->node_count++;
    // Rules name nodes; a Convert of a graph input has none to name.
    if (is_convert(node) && !node->inputs[0]->producer) u->is_blocked = true;
    for (int32_t o = 0; o < node->output_count; o++) {
      const itg_tensor *output = node->outputs[o];
      if (!output) continue;
      u->operand_count += is_operand(node, output);
      u->storage_count += narrow_encoding(f, node, output) != NULL;
    }
  }
}

static itg_status make_item(finder *f, itg_choices *choices, bool is_operand_item, const unit *u, size_t *number,
                            itg_diagnostic *diagnostic) {
  const size_t tensors = is_operand_item ? u->operand_count : u->storage_count;
  itg_choice *item = &choices->items[choices->count];
  *item = (itg_choice){.is_operand = is_operand_item,
                       .nodes = itg_arena_array(f->arena, u->node_count, sizeof *item->nodes),
                       .tensors = itg_arena_array(f->arena, tensors, sizeof *item->tensors),
                       .encodings = itg_arena_array(f->arena, tensors, sizeof *item->encodings),
                       .cost = 1};
  ITG_TRY_MEMORY(item->nodes && item->tensors && item->encodings, diagnostic);
  *number = ++choices->count;
  return ITG_OK;
}

static void add_tensor(itg_choice *item, itg_tensor *tensor, const itg_encoding *encoding) {
  item->tensors[item->tensor_count] = tensor;
  item->encodings[item->tensor_count++] = encoding;
}

static void fill_items(const finder *f, itg_choices *choices) {
  for (size_t i = 0; i < f->count; i++) {
    itg_node *node = f->nodes[i];
    const unit *u = &f->units[root_of(f, node)];
    itg_choice *operand = u->operand_item ? &choices->items[u->operand_item - 1] : NULL;
    itg_choice *storage = u->storage_item ? &choices->items[u->storage_item - 1] : NULL;
    if (operand && !is_convert(node)) operand->nodes[operand->node_count++] = node;
    if (storage && !is_convert(node)) storage->nodes[storage->node_count++] = node;
    for (int32_t o = 0; o < node->output_count; o++) {
      itg_tensor *output = node->outputs[o];
      if (!output) continue;
      if (operand && is_operand(node, output)) {
        add_tensor(operand, output, output->encoding);
        operand->cost += operand_cost(f, output);
      }
      const itg_encoding *encoding = narrow_encoding(f, node, output);
      if (storage && encoding) {
        add_tensor(storage, output, encoding);
        // Written wider, and read through a Convert.
        storage->cost += element_count(output) * itg_element_cost(f->target, ITG_DTYPE_U16);
      }
    }
  }
}

// A float input in 8 bits that products read, directly or through views.
static itg_status add_inputs(const finder *f, itg_diagnostic *diagnostic, itg_choices *choices) {
  for (int32_t i = 0; i < f->wide->twin->input_count; i++) {
    itg_tensor *input = f->wide->twin->inputs[i];
    if (!is_narrow(input) || feeds_second_operand(input)) continue;
    itg_choice *item = &choices->items[choices->count++];
    *item = (itg_choice){.input = input,
                         .is_operand = true,
                         .tensors = itg_arena_array(f->arena, 1, sizeof *item->tensors),
                         .encodings = itg_arena_array(f->arena, 1, sizeof *item->encodings),
                         .cost = 1 + operand_cost(f, input)};
    ITG_TRY_MEMORY(item->tensors && item->encodings, diagnostic);
    add_tensor(item, input, input->encoding);
  }
  return ITG_OK;
}

static itg_status find(finder *f, itg_diagnostic *diagnostic, itg_choices *choices) {
  const itg_graph *twin = f->wide->twin;
  const size_t capacity = (size_t)twin->node_count;
  f->nodes = itg_arena_array(f->arena, capacity, sizeof *f->nodes);
  f->parent = itg_arena_array(f->arena, capacity, sizeof *f->parent);
  f->units = itg_arena_array(f->arena, capacity, sizeof *f->units);
  const size_t most = 2 * capacity + (size_t)twin->input_count;
  choices->items = itg_arena_array(f->arena, most, sizeof *choices->items);
  choices->storage_of = itg_arena_array(f->arena, most, sizeof *choices->storage_of);
  ITG_TRY_MEMORY(f->nodes && f->parent && f->units && choices->items && choices->storage_of, diagnostic);
  ITG_FOR_EACH_NODE(node, twin) {
    node->index = (int64_t)f->count;
    f->parent[f->count] = f->count;
    f->nodes[f->count++] = node;
  }
  tie_units(f);
  count_tensors(f);
  for (size_t i = 0; i < f->count; i++) {
    unit *u = &f->units[i];
    if (f->parent[i] != i || u->is_blocked || u->node_count == 0) continue;
    if (u->storage_count > 0) ITG_TRY(make_item(f, choices, false, u, &u->storage_item, diagnostic));
    if (u->operand_count > 0) {
      ITG_TRY(make_item(f, choices, true, u, &u->operand_item, diagnostic));
      choices->storage_of[u->operand_item - 1] = u->storage_item;
    }
  }
  fill_items(f, choices);
  return add_inputs(f, diagnostic, choices);
}

itg_status itg_choices_find(const itg_built *wide, const itg_built *narrow, const itg_target *target, itg_arena *arena,
                            itg_diagnostic *diagnostic, itg_choices *out) {
  finder f = {.wide = wide, .narrow = narrow, .target = target, .arena = arena};
  itg_choices choices = {0};
  ITG_TRY(find(&f, diagnostic, &choices));
  *out = choices;
  return ITG_OK;
}

// The name as a pattern that matches nothing else.
static char *escape(itg_arena *arena, const char *name) {
  char *text = itg_arena_allocate(arena, 2 * strlen(name) + 1), *out = text;
  if (!text) return NULL;
  for (; *name; name++) {
    if (strchr("*?[\\", *name)) *out++ = '\\';
    *out++ = *name;
  }
  *out = '\0';
  return text;
}

itg_status itg_choices_to_rules(const itg_choices *choices, const bool *picked, itg_diagnostic *diagnostic,
                                itg_recipe *recipe) {
  size_t capacity = 0;
  for (size_t i = 0; i < choices->count; i++) capacity += choices->items[i].node_count + 1;
  recipe->rules = itg_arena_array(&recipe->arena, capacity, sizeof *recipe->rules);
  ITG_TRY_MEMORY(recipe->rules, diagnostic);
  recipe->rule_count = 0;
  // Storage choices come before the operand choice of the same nodes, and later rules win.
  for (size_t i = 0; i < choices->count; i++) {
    const itg_choice *item = &choices->items[i];
    if (item->is_operand != picked[i]) continue; // What a8w8+s16 does by itself.
    itg_recipe_rule rule = {
        .activation_bits = picked[i] ? 16 : 8, .weight_block = -1, .range_method = -1, .weight_method = -1};
    if (item->input) {
      ITG_TRY_MEMORY(rule.input = escape(&recipe->arena, item->input->name), diagnostic);
      recipe->rules[recipe->rule_count++] = rule;
    }
    for (size_t n = 0; n < item->node_count; n++) {
      rule.op = itg_op_name((int)item->nodes[n]->op);
      ITG_TRY_MEMORY(rule.name = escape(&recipe->arena, item->nodes[n]->name), diagnostic);
      recipe->rules[recipe->rule_count++] = rule;
    }
  }
  return ITG_OK;
}
