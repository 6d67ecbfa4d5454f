// The vectorised functions against libm in f64: error in units of the last place over dense samples of their range.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "interpret/vector_math.h"

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double gelu(double x) { return x * 0.5 * erfc(-x * 0.70710678118654752440); }
static double mish(double x) { return x * tanh(log1p(exp(x))); }

// Distance in units of the last place of the expected value (of the smallest normal below it).
static double ulps(float actual, double expected) {
  if (isnan(expected)) return isnan(actual) ? 0 : INFINITY;
  if (isinf((float)expected)) return actual == (float)expected ? 0 : INFINITY;
  int exponent;
  frexp(expected, &exponent);
  if (exponent < -125) exponent = -125;
  return fabs((double)actual - expected) / ldexp(1, exponent - 24);
}

typedef struct function_case {
  const char *name;
  float (*function)(float);
  double (*reference)(double);
  float low, high;
  double bound;    // Units of the last place.
  double absolute; // Errors below this are fine as well (where the result cancels).
} function_case;

static float run_exp(float x) { return itg_expf(x); }
static float run_log(float x) { return itg_logf(x); }
static float run_tanh(float x) { return itg_tanhf(x); }
static float run_erf(float x) { return itg_erff(x); }
static float run_sigmoid(float x) { return itg_sigmoidf(x); }
static float run_gelu(float x) { return itg_geluf(x); }
static float run_mish(float x) { return itg_mishf(x); }

static void functions_are_within_their_bounds(void **state) {
  (void)state;
  static const function_case cases[] = {
      {"exp", run_exp, exp, -87.3f, 88.7f, 1.5, 0},     {"exp, subnormal", run_exp, exp, -103.9f, -87.3f, 1.5, 0},
      {"log", run_log, log, 1e-30f, 1e30f, 1.5, 0},     {"log near 1", run_log, log, 0.5f, 2, 2, 0},
      {"tanh", run_tanh, tanh, -10, 10, 2.5, 0},        {"erf", run_erf, erf, -5, 5, 2.5, 0},
      {"sigmoid", run_sigmoid, sigmoid, -80, 30, 3, 0}, {"gelu", run_gelu, gelu, -6, 10, 4, 4e-7},
      {"mish", run_mish, mish, -20, 30, 6, 0},
  };
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
    double worst = 0;
    float at = 0;
    const int count = 400000;
    for (int i = 0; i <= count; i++) {
      const float x = cases[c].low + (cases[c].high - cases[c].low) * ((float)i / (float)count);
      const double expected = cases[c].reference((double)x);
      const float actual = cases[c].function(x);
      if (fabs((double)actual - expected) < cases[c].absolute) continue;
      const double error = ulps(actual, expected);
      if (error > worst) {
        worst = error;
        at = x;
      }
    }
    print_message("%-16s %.2f ulp at %.9g\n", cases[c].name, worst, (double)at);
    assert_true(worst <= cases[c].bound);
  }
}

static void special_values_are_right(void **state) {
  (void)state;
  assert_true(isinf(itg_expf(INFINITY)) && itg_expf(-INFINITY) == 0 && isnan(itg_expf(NAN)) && itg_expf(0) == 1);
  assert_true(isinf(itg_expf(89)) && itg_expf(-110) == 0);
  assert_true(itg_logf(0) == -INFINITY && isnan(itg_logf(-1)) && itg_logf(INFINITY) == INFINITY &&
              isnan(itg_logf(NAN)));
  assert_true(itg_logf(1) == 0);
  assert_true(fabs((double)itg_logf(0x1p-140f) - log(0x1p-140)) < 1e-5);
  assert_true(itg_tanhf(INFINITY) == 1 && itg_tanhf(-INFINITY) == -1 && isnan(itg_tanhf(NAN)) && itg_tanhf(0) == 0);
  assert_true(itg_erff(INFINITY) == 1 && itg_erff(-INFINITY) == -1 && isnan(itg_erff(NAN)) && itg_erff(0) == 0);
  assert_true(itg_sigmoidf(INFINITY) == 1 && itg_sigmoidf(-INFINITY) == 0 && isnan(itg_sigmoidf(NAN)));
  assert_true(itg_mishf(1e30f) == 1e30f && isnan(itg_mishf(NAN)));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(functions_are_within_their_bounds),
                                     cmocka_unit_test(special_values_are_right)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
