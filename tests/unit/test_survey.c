// The survey of a machine on recorded trees: a board, a phone, a PC, and each thing that can be missing.
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "intaglio/intaglio.h"
#include "npu/target.h"

typedef struct recorded_file {
  const char *path, *text;
  mode_t mode; // 0: as usual.
} recorded_file;

// Paths and contents as a Radxa Dragon Q6A has them.
static const recorded_file board[] = {
    {"/sys/devices/soc0/soc_id", "498\n", 0},
    {"/sys/devices/soc0/machine", "QCS6490\n", 0},
    {"/proc/device-tree/model", "Radxa Dragon Q6A\0", 0},
    {"/proc/device-tree/compatible", "radxa,dragon-q6a qcom,qcm6490", 0},
    {"/sys/class/remoteproc/remoteproc0/name", "adsp\n", 0},
    {"/sys/class/remoteproc/remoteproc0/state", "offline\n", 0},
    {"/sys/class/remoteproc/remoteproc1/name", "cdsp\n", 0},
    {"/sys/class/remoteproc/remoteproc1/state", "running\n", 0},
    {"/sys/class/remoteproc/remoteproc1/firmware", "qcom/qcs6490/radxa/dragon-q6a/cdsp.mbn\n", 0},
    {"/sys/module/fastrpc/refcnt", "0\n", 0},
    {"/dev/fastrpc-cdsp", "", 0},
    {"/dev/dma_heap/system", "", 0},
    {"/usr/lib/aarch64-linux-gnu/libcdsprpc.so.1", "", 0},
    {"/usr/share/qcom/qcs6490/radxa/dragon-q6a/dsp/cdsp/fastrpc_shell_unsigned_3", "", 0},
    {"/usr/lib/dsp/cdsp/libQnnHtpV68Skel.so", "", 0},
    {"/usr/lib/aarch64-linux-gnu/libQnnHtp.so", "", 0},
};
static const recorded_file phone[] = {
    {"/sys/devices/soc0/soc_id", "519\n", 0},
    {"/sys/devices/soc0/machine", "KALAMA\n", 0},
    {"/dev/adsprpc-smd", "", 0},
    {"/dev/dma_heap/system", "", 0},
    {"/vendor/lib64/libcdsprpc.so", "", 0},
    {"/vendor/dsp/cdsp/fastrpc_shell_unsigned_3", "", 0},
    {"/vendor/lib/rfsa/adsp/libQnnHtpV73Skel.so", "", 0},
    {"/vendor/lib64/libQnnHtp.so", "", 0},
};
static const recorded_file personal_computer[] = {{"/sys/class/dmi/id/sys_vendor", "Any\n", 0}};
enum { BOARD_FILES = sizeof board / sizeof board[0], PHONE_FILES = sizeof phone / sizeof phone[0] };

static void write_file(const char *root, const recorded_file *file) {
  char path[512];
  snprintf(path, sizeof path, "%s%s", root, file->path);
  for (char *slash = strchr(path + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = 0;
    mkdir(path, 0755);
    *slash = '/';
  }
  const int out = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  assert_true(out >= 0);
  assert_int_equal(write(out, file->text, strlen(file->text)), strlen(file->text));
  close(out);
  if (file->mode) assert_int_equal(chmod(path, file->mode), 0);
}

static int remove_one(const char *path, const struct stat *info, int flag, struct FTW *walk) {
  (void)info;
  (void)flag;
  (void)walk;
  return remove(path);
}

// Surveys a tree of `count` files without `missing` (NULL: none) and with `changed` (NULL: as it is) put over.
static itg_survey *survey_of(const recorded_file *files, size_t count, const char *missing,
                             const recorded_file *changed) {
  char root[] = "/tmp/itg-survey-XXXXXX";
  assert_non_null(mkdtemp(root));
  for (size_t i = 0; i < count; i++) {
    if (!missing || strcmp(files[i].path, missing) != 0) write_file(root, &files[i]);
  }
  if (changed) write_file(root, changed);
  itg_survey *survey = NULL;
  itg_diagnostic why = {0};
  assert_int_equal(itg_survey_create(root, NULL, &why, &survey), ITG_OK);
  nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
  return survey;
}

static const itg_finding *finding_of(const itg_survey *survey, const char *topic) {
  for (size_t i = 0; i < itg_survey_count(survey); i++) {
    if (strcmp(itg_survey_finding(survey, i)->topic, topic) == 0) return itg_survey_finding(survey, i);
  }
  fail_msg("no finding about %s", topic);
  return NULL;
}

static void whole_machines_miss_nothing(void **state) {
  (void)state;
  const struct {
    const recorded_file *files;
    size_t count;
    const char *target;
  } machines[] = {{board, BOARD_FILES, "qcs6490"}, {phone, PHONE_FILES, "sm8550"}};
  for (size_t i = 0; i < 2; i++) {
    itg_survey *survey = survey_of(machines[i].files, machines[i].count, NULL, NULL);
    assert_string_equal(itg_survey_target(survey), machines[i].target);
    for (size_t k = 0; k < itg_survey_count(survey); k++)
      assert_int_not_equal(itg_survey_finding(survey, k)->state, ITG_FINDING_MISSING);
    assert_non_null(strstr(itg_survey_verdict(survey), "Nothing is missing"));
    assert_null(itg_survey_finding(survey, itg_survey_count(survey)));
    itg_survey_destroy(survey);
  }
}

static void each_missing_file_is_named_with_its_remedy(void **state) {
  (void)state;
  const struct {
    const char *path, *topic, *remedy;
  } cases[] = {
      {"/dev/fastrpc-cdsp", "FastRPC node", "device tree"},
      {"/dev/dma_heap/system", "shared memory", "CONFIG_DMABUF_HEAPS_SYSTEM"},
      {"/usr/lib/aarch64-linux-gnu/libcdsprpc.so.1", "FastRPC library", "libcdsprpc1"},
      {"/usr/share/qcom/qcs6490/radxa/dragon-q6a/dsp/cdsp/fastrpc_shell_unsigned_3", "DSP shell", "DSP_LIBRARY_PATH"},
      {"/usr/lib/dsp/cdsp/libQnnHtpV68Skel.so", "NPU skeleton", "hexagon-v68"},
      {"/usr/lib/aarch64-linux-gnu/libQnnHtp.so", "QNN library", "--qnn-dir"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    itg_survey *survey = survey_of(board, BOARD_FILES, cases[i].path, NULL);
    const itg_finding *finding = finding_of(survey, cases[i].topic);
    assert_int_equal(finding->state, ITG_FINDING_MISSING);
    assert_non_null(strstr(finding->next_step, cases[i].remedy));
    assert_non_null(strstr(itg_survey_verdict(survey), "cannot be used yet (1 thing missing)"));
    itg_survey_destroy(survey);
  }
}

static void firmware_that_does_not_run_is_named(void **state) {
  (void)state;
  const recorded_file offline = {"/sys/class/remoteproc/remoteproc1/state", "offline\n", 0};
  itg_survey *survey = survey_of(board, BOARD_FILES, NULL, &offline);
  const itg_finding *finding = finding_of(survey, "NPU firmware");
  assert_int_equal(finding->state, ITG_FINDING_MISSING);
  assert_non_null(strstr(finding->fact, "'offline' (qcom/qcs6490/radxa/dragon-q6a/cdsp.mbn)"));
  itg_survey_destroy(survey);
}

static void a_node_without_permission_names_mode_and_group(void **state) {
  (void)state;
  const recorded_file closed = {"/dev/fastrpc-cdsp", "", 0040};
  itg_survey *survey = survey_of(board, BOARD_FILES, NULL, &closed);
  const itg_finding *finding = finding_of(survey, "FastRPC node");
  assert_int_equal(finding->state, ITG_FINDING_MISSING);
  assert_non_null(strstr(finding->fact, "may not open /dev/fastrpc-cdsp (mode 040, group"));
  assert_non_null(strstr(finding->next_step, "KERNEL==\"fastrpc-cdsp\""));
  itg_survey_destroy(survey);
}

static void an_unknown_chip_is_said_and_a_known_board_is_found_by_its_device_tree(void **state) {
  (void)state;
  const recorded_file unknown = {"/sys/devices/soc0/soc_id", "9999\n", 0};
  itg_survey *survey = survey_of(phone, PHONE_FILES, NULL, &unknown);
  assert_null(itg_survey_target(survey)); // Neither the number nor the name says that it is one of Qualcomm's.
  assert_int_equal(finding_of(survey, "chip")->state, ITG_FINDING_NOTE);
  itg_survey_destroy(survey);

  const recorded_file newer = {"/proc/device-tree/compatible", "qcom,sm9999-mtp qcom,sm9999", 0};
  survey = survey_of(&newer, 1, NULL, NULL);
  assert_int_equal(finding_of(survey, "chip")->state, ITG_FINDING_MISSING);
  assert_non_null(strstr(finding_of(survey, "chip")->fact, "sm9999"));
  itg_survey_destroy(survey);

  survey = survey_of(board, BOARD_FILES, "/sys/devices/soc0/soc_id", NULL);
  assert_string_equal(itg_survey_target(survey), "qcs6490"); // By the machine's name.
  itg_survey_destroy(survey);
}

static void a_personal_computer_has_no_npu(void **state) {
  (void)state;
  itg_survey *survey = survey_of(personal_computer, 1, NULL, NULL);
  assert_null(itg_survey_target(survey));
  assert_non_null(strstr(itg_survey_verdict(survey), "models run on the CPU"));
  itg_survey_destroy(survey);
}

static void hostile_contents_are_only_text(void **state) {
  (void)state;
  char *text = malloc(100001);
  assert_non_null(text);
  memset(text, 'q', 100000);
  memcpy(text, "qcom,%s%n\x01\x02", 11);
  text[100000] = 0;
  const recorded_file huge = {"/proc/device-tree/compatible", text, 0};
  itg_survey *survey = survey_of(&huge, 1, NULL, NULL);
  assert_non_null(strstr(finding_of(survey, "chip")->fact, "qcom,%s%n  q"));
  itg_survey_destroy(survey);
  free(text);
  char name[600];
  memset(name, 'a', sizeof name - 1);
  name[sizeof name - 1] = 0;
  itg_diagnostic why = {0};
  assert_int_equal(itg_survey_create(name, NULL, &why, &survey), ITG_ERROR_ARGUMENT);
}

static void kernel_numbers_are_unique(void **state) {
  (void)state;
  size_t count;
  const itg_target *targets = itg_target_list(&count);
  for (uint32_t id = 1; id < 1000; id++) {
    const itg_target *target = itg_target_find_kernel_id(id);
    if (!target) continue;
    char text[16];
    snprintf(text, sizeof text, "%u", id);
    size_t owners = 0;
    for (size_t i = 0; i < count; i++) owners += strstr(targets[i].kernel_ids, text) != NULL;
    assert_int_equal(owners, 1);
  }
  assert_string_equal(itg_target_find_kernel_id(480)->name, "sm8450"); // The second of three.
  assert_null(itg_target_find_kernel_id(0));
}

int main(void) {
  // Permissions say nothing to the superuser.
  if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) {
    printf("skipped: cannot become an ordinary user\n");
    return 77;
  }
  prctl(PR_SET_DUMPABLE, 1); // The leak checker looks into its own process, which the change of user forbids.
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(whole_machines_miss_nothing),
      cmocka_unit_test(each_missing_file_is_named_with_its_remedy),
      cmocka_unit_test(firmware_that_does_not_run_is_named),
      cmocka_unit_test(a_node_without_permission_names_mode_and_group),
      cmocka_unit_test(an_unknown_chip_is_said_and_a_known_board_is_found_by_its_device_tree),
      cmocka_unit_test(a_personal_computer_has_no_npu),
      cmocka_unit_test(hostile_contents_are_only_text),
      cmocka_unit_test(kernel_numbers_are_unique),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
