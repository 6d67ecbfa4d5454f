// Conversations as the texts of their models' templates.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "text/buffers.h"
#include "text/chat_template.h"

#define TEXT(literal) \
  { {(const uint8_t *)(literal), sizeof(literal) - 1}, false }
#define PICTURE \
  { {NULL, 0}, true }

static const itg_chat_piece system_pieces[] = {TEXT("Be brief.")}, question[] = {TEXT(" Hi there ")};
static const itg_chat_piece answer[] = {TEXT("<think>\nhm\n</think>\n\nHello.")}, next[] = {TEXT("Why?")};
static const itg_chat_piece picture_first[] = {PICTURE, PICTURE, TEXT("Compare.")};
static const itg_chat_turn conversation[] = {
    {"system", system_pieces, 1}, {"user", question, 1}, {"assistant", answer, 1}, {"user", next, 1}};

static void renders(itg_chat_template chat, const itg_chat_turn *turns, size_t count, const char *expected) {
  itg_text out = {0};
  itg_diagnostic why = {0};
  if (itg_chat_template_render(&chat, turns, count, &why, &out) != ITG_OK) fail_msg("%s", why.message);
  assert_int_equal(out.size, strlen(expected));
  assert_memory_equal(out.data, expected, out.size);
  itg_text_free(&out);
}

static void chatml(void **state) {
  (void)state;
  renders((itg_chat_template){.format = ITG_CHAT_CHATML}, conversation, 4,
          "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n Hi there <|im_end|>\n"
          "<|im_start|>assistant\n<think>\nhm\n</think>\n\nHello.<|im_end|>\n<|im_start|>user\nWhy?<|im_end|>\n"
          "<|im_start|>assistant\n");
  // Without a system message the model's own is put in front; Qwen3 forgets thoughts and starts behind an empty one.
  renders((itg_chat_template){.format = ITG_CHAT_CHATML,
                              .default_system = "You are a helpful assistant.",
                              .no_thinking = true},
          conversation + 1, 3,
          "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n Hi there <|im_end|>\n"
          "<|im_start|>assistant\nHello.<|im_end|>\n<|im_start|>user\nWhy?<|im_end|>\n"
          "<|im_start|>assistant\n<think>\n\n</think>\n\n");
}

static void llama3(void **state) {
  (void)state;
  renders((itg_chat_template){.format = ITG_CHAT_LLAMA3}, conversation, 2,
          "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
          "<|start_header_id|>user<|end_header_id|>\n\nHi there<|eot_id|>"
          "<|start_header_id|>assistant<|end_header_id|>\n\n");
  renders((itg_chat_template){.format = ITG_CHAT_LLAMA3, .dated_system = true}, conversation + 3, 1,
          "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\n"
          "Today Date: 26 Jul 2024\n\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nWhy?<|eot_id|>"
          "<|start_header_id|>assistant<|end_header_id|>\n\n");
}

static void vision(void **state) {
  (void)state;
  const itg_chat_turn turns[] = {{"system", system_pieces, 1}, {"user", picture_first, 3}};
  renders((itg_chat_template){.format = ITG_CHAT_SMOLVLM}, turns, 2,
          "<|im_start|>System: Be brief.<end_of_utterance>\nUser:<image><image>Compare.<end_of_utterance>\nAssistant:");
  renders(
      (itg_chat_template){.format = ITG_CHAT_INTERNVL}, turns, 2,
      "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n<IMG_CONTEXT>\n<IMG_CONTEXT>\nCompare.<|im_end|>\n"
      "<|im_start|>assistant\n");
}

static void refusals(void **state) {
  (void)state;
  const itg_chat_template chat = {.format = ITG_CHAT_CHATML};
  const itg_chat_turn unknown[] = {{"tool", next, 1}}, late[] = {{"user", next, 1}, {"system", next, 1}},
                      picture[] = {{"user", picture_first, 3}};
  itg_text out = {0};
  itg_diagnostic why = {0};
  assert_int_equal(itg_chat_template_render(&chat, NULL, 0, &why, &out), ITG_ERROR_ARGUMENT);
  assert_int_equal(itg_chat_template_render(&chat, unknown, 1, &why, &out), ITG_ERROR_ARGUMENT);
  assert_non_null(strstr(why.message, "tool"));
  assert_int_equal(itg_chat_template_render(&chat, late, 2, &why, &out), ITG_ERROR_ARGUMENT);
  assert_int_equal(itg_chat_template_render(&chat, picture, 1, &why, &out), ITG_ERROR_ARGUMENT);
  itg_text_free(&out);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(chatml), cmocka_unit_test(llama3), cmocka_unit_test(vision),
                                     cmocka_unit_test(refusals)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
