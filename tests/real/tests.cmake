# 100,000 lines a tokenizer (./check --full) take a quarter of an hour on a busy machine.
set_tests_properties(real/test_tokenizer_oracle PROPERTIES TIMEOUT 3600)
