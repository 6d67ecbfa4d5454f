// The NPU as the kernel shows it: is its firmware running, is the FastRPC driver there, may this user open its nodes.
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "npu/qnn/codes.h"
#include "npu/survey/findings.h"

static bool exists(const itg_survey *survey, const char *path) {
  char full[1024];
  return itg_survey_path(survey, path, full, sizeof full) && access(full, F_OK) == 0;
}

static void survey_firmware(itg_survey *survey) {
  for (int i = 0; i < 16; i++) {
    char path[96], name[64], state[32] = "", firmware[160] = "";
    snprintf(path, sizeof path, "/sys/class/remoteproc/remoteproc%d/name", i);
    if (!itg_survey_read(survey, path, name, sizeof name) || !strstr(name, "cdsp")) continue;
    snprintf(path, sizeof path, "/sys/class/remoteproc/remoteproc%d/state", i);
    itg_survey_read(survey, path, state, sizeof state);
    snprintf(path, sizeof path, "/sys/class/remoteproc/remoteproc%d/firmware", i);
    itg_survey_read(survey, path, firmware, sizeof firmware);
    if (strcmp(state, "running") == 0)
      itg_survey_add(survey, "NPU firmware", ITG_FINDING_OK, NULL, "running (%s)", firmware);
    else
      itg_survey_add(survey, "NPU firmware", ITG_FINDING_MISSING,
                     "install the board's firmware package (the file must lie below /lib/firmware), then start it: "
                     "echo start > the remoteproc's state file, or reboot; dmesg | grep cdsp says why it stopped",
                     "the compute DSP is '%s' (%s)", state, firmware);
    return;
  }
  // Phones hide it: their kernels have other drivers.
  itg_survey_add(survey, "NPU firmware", ITG_FINDING_NOTE, NULL, "the kernel lists no compute DSP (remoteproc)");
}

// Who may open a file: "crw-rw---- group render".
static void describe_access(const char *full, char *text, size_t size) {
  struct stat info;
  if (stat(full, &info) != 0) {
    snprintf(text, size, "%s", strerror(errno));
    return;
  }
  const struct group *group = getgrgid(info.st_gid);
  snprintf(text, size, "mode %03o, group %s", (unsigned)(info.st_mode & 0777), group ? group->gr_name : "unknown");
}

// One of `paths` must be there, readable and writable. `absent`: what to do when none is.
static void survey_node(itg_survey *survey, const char *topic, const char *const *paths, size_t count,
                        const char *absent) {
  char closed[256] = "", closed_path[64] = "";
  for (size_t i = 0; i < count; i++) {
    char full[1024];
    if (!exists(survey, paths[i]) || !itg_survey_path(survey, paths[i], full, sizeof full)) continue;
    if (access(full, R_OK | W_OK) == 0) {
      itg_survey_add(survey, topic, ITG_FINDING_OK, NULL, "%s can be opened", paths[i]);
      return;
    }
    if (closed_path[0]) continue;
    snprintf(closed_path, sizeof closed_path, "%s", paths[i]);
    describe_access(full, closed, sizeof closed);
  }
  if (!closed_path[0]) {
    itg_survey_add(survey, topic, ITG_FINDING_MISSING, absent, "there is no %s", paths[0]);
    return;
  }
  char step[400];
  snprintf(step, sizeof step,
           "add the user to the node's group (sudo usermod -aG GROUP USER, then log in again), or a udev rule such as "
           "KERNEL==\"%s\", MODE=\"0660\", GROUP=\"render\"; in a container, pass the device and the group",
           strrchr(closed_path, '/') + 1);
  itg_survey_add(survey, topic, ITG_FINDING_MISSING, step, "this user may not open %s (%s)", closed_path, closed);
}

void itg_survey_device(itg_survey *survey) {
  survey_firmware(survey);
  survey_node(
      survey, "FastRPC node", itg_qnn_device_nodes, ITG_QNN_DEVICE_NODES,
      exists(survey, "/sys/module/fastrpc")
          ? "the fastrpc driver is loaded but has no compute DSP: its firmware must run and the device tree must "
            "have a fastrpc node below it (update the board's kernel and firmware); in a container, pass the "
            "device (--device /dev/fastrpc-cdsp)"
          : "load the driver (sudo modprobe fastrpc; the kernel needs CONFIG_QCOM_FASTRPC); in a container, "
            "pass the device (--device /dev/fastrpc-cdsp)");
  static const char *const heaps[] = {"/dev/dma_heap/system", "/dev/dma_heap/qcom,system", "/dev/ion"};
  survey_node(survey, "shared memory", heaps, sizeof heaps / sizeof heaps[0],
              "the kernel needs CONFIG_DMABUF_HEAPS_SYSTEM; in a container, pass the device (--device "
              "/dev/dma_heap/system)");
}
