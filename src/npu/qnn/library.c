// See library.h. Facts about the interface were measured on the vendor's x86-64 library, core API 2.36 to 2.40.
#include "npu/qnn/library.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <glob.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "npu/qnn/codes.h"
#include "npu/qnn/dsp_path.h"

#if defined(__aarch64__) && defined(__ANDROID__)
#define PLATFORM "aarch64-android"
#elif defined(__aarch64__)
#define PLATFORM "aarch64-oe-linux-gcc11.2"
#else
#define PLATFORM "x86_64-linux-clang"
#endif

static void add_folder(char (*folders)[512], size_t capacity, size_t *count, const char *folder) {
  if (*count == capacity || strlen(folder) >= sizeof folders[0]) return;
  for (size_t i = 0; i < *count; i++) {
    if (strcmp(folders[i], folder) == 0) return;
  }
  snprintf(folders[(*count)++], sizeof folders[0], "%s", folder);
}

static void add_pattern(char (*folders)[512], size_t capacity, size_t *count, const char *root, const char *pattern) {
  char path[512];
  if (!root || snprintf(path, sizeof path, "%s%s", root, pattern) >= (int)sizeof path) return;
  glob_t found = {0};
  if (glob(path, 0, NULL, &found) == 0) {
    for (size_t i = found.gl_pathc; i-- > 0;) add_folder(folders, capacity, count, found.gl_pathv[i]);
  }
  globfree(&found);
}

size_t itg_qnn_search_path(const char *directory, char (*folders)[512], size_t capacity) {
  size_t count = 0;
  if (directory) {
    add_folder(folders, capacity, &count, directory);
    return count;
  }
  const char *chosen = getenv("INTAGLIO_QNN_DIR"), *sdk = getenv("QNN_SDK_ROOT");
  if (chosen && *chosen) add_folder(folders, capacity, &count, chosen);
  add_pattern(folders, capacity, &count, sdk, "/lib/" PLATFORM);
  const char *package = "/lib/python3*/site-packages/onnxruntime_qnn";
  const char *cache = getenv("INTAGLIO_CACHE"), *home = getenv("HOME");
  char ours[512] = "";
  if (cache)
    snprintf(ours, sizeof ours, "%s/python", cache);
  else if (home)
    snprintf(ours, sizeof ours, "%s/.cache/intaglio/python", home);
  char local[512] = "";
  if (home) snprintf(local, sizeof local, "%s/.local", home);
  const char *roots[] = {getenv("VIRTUAL_ENV"), local, "/usr/local", "/usr", ours};
  for (size_t i = 0; i < sizeof roots / sizeof roots[0]; i++) {
    if (!roots[i] || !*roots[i]) continue;
    add_pattern(folders, capacity, &count, roots[i], package);
    add_pattern(folders, capacity, &count, roots[i], "/lib/python3*/dist-packages/onnxruntime_qnn");
  }
  add_folder(folders, capacity, &count, "");
  return count;
}

// The vendor's log callback carries no context, so its lines are kept here for the whole process.
enum { LOG_LINES = 4, LOG_LINE_BYTES = 240 };
static struct {
  pthread_mutex_t lock;
  char lines[LOG_LINES][LOG_LINE_BYTES];
  size_t count;
} vendor_log = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void on_log(const char *format, int level, uint64_t timestamp, va_list arguments) {
  (void)timestamp;
  if (level != ITG_QNN_LOG_ERROR) return;
  char line[LOG_LINE_BYTES];
  vsnprintf(line, sizeof line, format, arguments);
  line[strcspn(line, "\r\n")] = 0;
  const char *words = line + strspn(line, " "); // Without the level, which is known.
  if (strncmp(words, "<E>", 3) == 0)
    memmove(line, words + 3 + strspn(words + 3, " "), strlen(words) - 2 - strspn(words + 3, " "));
  pthread_mutex_lock(&vendor_log.lock);
  bool known = false;
  for (size_t i = 0; i < vendor_log.count; i++) known |= strcmp(vendor_log.lines[i], line) == 0;
  // The first lines name the cause; what follows lists what would be supported.
  if (!known && vendor_log.count < LOG_LINES) memcpy(vendor_log.lines[vendor_log.count++], line, sizeof line);
  pthread_mutex_unlock(&vendor_log.lock);
}

void itg_qnn_take_log(char *text, size_t size) {
  size_t used = 0;
  if (size) text[0] = 0;
  pthread_mutex_lock(&vendor_log.lock);
  for (size_t i = 0; i < vendor_log.count && used < size; i++) {
    const int written = snprintf(text + used, size - used, "%s%s", used ? " | " : "", vendor_log.lines[i]);
    used += written > 0 ? (size_t)written : 0;
  }
  vendor_log.count = 0;
  pthread_mutex_unlock(&vendor_log.lock);
}

static itg_status refuse(itg_qnn_error error, itg_status status, const char *call, const char *subject,
                         itg_diagnostic *diagnostic) {
  char words[130], node[64];
  itg_qnn_take_log(words, sizeof words);
  const itg_qnn_code code = itg_qnn_code_find(error);
  const unsigned number = (unsigned)(error & 0xffff);
  if (itg_qnn_closed_node("", node, sizeof node))
    ITG_FAIL(diagnostic, status, subject,
             "the QNN library refused %s (code %u, %s)%s%s; this user may not open %s: run intaglio doctor", call,
             number, code.name, words[0] ? ": " : "", words, node);
  ITG_FAIL(diagnostic, status, subject, "the QNN library refused %s (code %u, %s)%s%s; %s", call, number, code.name,
           words[0] ? ": " : "", words, code.next_step);
}

itg_status itg_qnn_check(itg_qnn_error error, const char *call, const char *subject, itg_diagnostic *diagnostic) {
  return error == 0 ? ITG_OK : refuse(error, ITG_ERROR_DEVICE, call, subject, diagnostic);
}

itg_status itg_qnn_check_run(itg_qnn_error error, const char *call, const char *subject, itg_diagnostic *diagnostic) {
  return error == 0 ? ITG_OK : refuse(error, ITG_ERROR_EXECUTION, call, subject, diagnostic);
}

// A file that dlopen can map without faulting or waiting: regular, ELF, and as long as its section table says. A truncated
// library would otherwise kill the process when its missing pages are touched.
static bool is_whole_library(const char *path) {
  itg_mapped_file file;
  if (itg_mapped_file_open(path, NULL, &file) != ITG_OK) return false;
  Elf64_Ehdr header;
  bool whole = file.bytes.size >= sizeof header;
  if (whole) {
    memcpy(&header, file.bytes.data, sizeof header);
    itg_span sections;
    whole = memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
            itg_span_cut(file.bytes, header.e_shoff, (uint64_t)header.e_shnum * header.e_shentsize, &sections);
  }
  itg_mapped_file_close(&file);
  return whole;
}

itg_status itg_qnn_shared_object_open(const char *directory, const char *file, itg_diagnostic *diagnostic,
                                      itg_qnn_library *library) {
  enum { CAPACITY = 32 };
  char(*folders)[512] = malloc(CAPACITY * sizeof folders[0]);
  ITG_TRY_MEMORY(folders, diagnostic);
  const size_t count = itg_qnn_search_path(directory, folders, CAPACITY);
  char reason[200] = "";
  for (size_t i = 0; i < count && !library->handle; i++) {
    const int length =
        snprintf(library->path, sizeof library->path, "%s%s%s", folders[i], folders[i][0] ? "/" : "", file);
    if (length >= (int)sizeof library->path) continue;
    if (folders[i][0] && access(library->path, F_OK) == 0 && !is_whole_library(library->path)) {
      if (!reason[0]) snprintf(reason, sizeof reason, "%.150s is no whole shared library", library->path);
      continue;
    }
    library->handle = dlopen(library->path, RTLD_NOW | RTLD_LOCAL);
    if (library->handle || reason[0]) continue;
    const char *words = dlerror();
    if (words) snprintf(reason, sizeof reason, "%s", words);
  }
  free(folders);
  if (library->handle) {
    struct link_map *map = NULL; // The whole path, also of what the loader found.
    if (dlinfo(library->handle, RTLD_DI_LINKMAP, &map) == 0 && map->l_name[0] &&
        strlen(map->l_name) < sizeof library->path)
      snprintf(library->path, sizeof library->path, "%s", map->l_name);
    return ITG_OK;
  }
  ITG_FAIL(
      diagnostic, ITG_ERROR_DEVICE, file,
      "not found or not loadable (%s); give --qnn-dir, set INTAGLIO_QNN_DIR or QNN_SDK_ROOT, or install the Python "
      "package onnxruntime-qnn",
      reason);
}

static itg_status choose_provider(itg_qnn_library *library, itg_diagnostic *diagnostic) {
  itg_qnn_get_providers get = NULL;
  void *symbol = dlsym(library->handle, "QnnInterface_getProviders");
  memcpy(&get, &symbol, sizeof get); // ISO C has no cast from an object pointer to a function pointer.
  if (!get)
    ITG_FAIL(diagnostic, ITG_ERROR_DEVICE, library->path, "is not a QNN library: QnnInterface_getProviders is missing");
  const itg_qnn_provider **list = NULL;
  uint32_t count = 0;
  if (get(&list, &count) != 0 || !list || count == 0)
    ITG_FAIL(diagnostic, ITG_ERROR_DEVICE, library->path, "the QNN library offers no interface");
  const itg_qnn_provider *newest = list[0];
  for (uint32_t i = 0; i < count; i++) {
    if (list[i]->core.major != 2) continue;
    if (newest->core.major != 2 || list[i]->core.minor > newest->core.minor) newest = list[i];
  }
  library->core = newest->core;
  if (newest->core.major != 2 || newest->core.minor < ITG_QNN_MIN_CORE_MINOR) {
    ITG_FAIL(diagnostic, ITG_ERROR_VERSION, library->path,
             "its core API is %u.%u.%u; Intaglio needs 2.%d (QAIRT 2.29) or newer of major version 2",
             newest->core.major, newest->core.minor, newest->core.patch, ITG_QNN_MIN_CORE_MINOR);
  }
  library->functions = &newest->functions;
  return itg_qnn_library_require(library, ITG_QNN_TO_OPEN, diagnostic);
}

itg_status itg_qnn_library_require(const itg_qnn_library *library, itg_qnn_purpose purpose,
                                   itg_diagnostic *diagnostic) {
#define REQUIRED(member, name, purposes) \
  { offsetof(itg_qnn_functions, member), name, purposes }
  static const struct {
    size_t at;
    const char *name;
    int purposes;
  } required[] = {
      REQUIRED(backend_create, "backendCreate", ITG_QNN_TO_OPEN),
      REQUIRED(backend_free, "backendFree", ITG_QNN_TO_OPEN),
      REQUIRED(log_create, "logCreate", ITG_QNN_TO_OPEN),
      REQUIRED(log_free, "logFree", ITG_QNN_TO_OPEN),
      REQUIRED(context_free, "contextFree", ITG_QNN_TO_RUN | ITG_QNN_TO_PREPARE),
      REQUIRED(context_create_from_binary, "contextCreateFromBinary", ITG_QNN_TO_RUN),
      REQUIRED(graph_retrieve, "graphRetrieve", ITG_QNN_TO_RUN),
      REQUIRED(graph_execute, "graphExecute", ITG_QNN_TO_RUN),
      REQUIRED(profile_create, "profileCreate", ITG_QNN_TO_PROFILE),
      REQUIRED(profile_get_events, "profileGetEvents", ITG_QNN_TO_PROFILE),
      REQUIRED(profile_get_sub_events, "profileGetSubEvents", ITG_QNN_TO_PROFILE),
      REQUIRED(profile_get_event_data, "profileGetEventData", ITG_QNN_TO_PROFILE),
      REQUIRED(profile_free, "profileFree", ITG_QNN_TO_PROFILE),
      REQUIRED(backend_validate_op, "backendValidateOpConfig", ITG_QNN_TO_PREPARE),
      REQUIRED(context_create, "contextCreate", ITG_QNN_TO_PREPARE),
      REQUIRED(context_get_binary_size, "contextGetBinarySize", ITG_QNN_TO_PREPARE),
      REQUIRED(context_get_binary, "contextGetBinary", ITG_QNN_TO_PREPARE),
      REQUIRED(graph_create, "graphCreate", ITG_QNN_TO_PREPARE),
      REQUIRED(graph_add_node, "graphAddNode", ITG_QNN_TO_PREPARE),
      REQUIRED(graph_finalize, "graphFinalize", ITG_QNN_TO_PREPARE),
      REQUIRED(tensor_create_graph_tensor, "tensorCreateGraphTensor", ITG_QNN_TO_PREPARE),
  };
#undef REQUIRED
  for (size_t i = 0; i < sizeof required / sizeof required[0]; i++) {
    void *function;
    memcpy(&function, (const char *)library->functions + required[i].at, sizeof function);
    if (!function && (required[i].purposes & (int)purpose))
      ITG_FAIL(diagnostic, ITG_ERROR_DEVICE, library->path,
               "the QNN library lacks the function %s; it is incomplete or of another kind: choose one with --qnn-dir",
               required[i].name);
  }
  return ITG_OK;
}

static itg_status create_device(itg_qnn_library *library, const itg_target *target, itg_diagnostic *diagnostic) {
  if (!library->functions->device_create) return ITG_OK; // The Saver has none.
  // The SoC stands at offset 8 since about core API 2.36 and at 4 before; the other place is padding in each.
  itg_qnn_htp_device_config soc = {.option = 0};
  const itg_qnn_config config = {.option = 0, .custom = &soc};
  const itg_qnn_config *configs[] = {&config, NULL};
  if (target) soc.value_at_4 = soc.value_at_8 = target->soc_model;
  return itg_qnn_check(library->functions->device_create(library->log, target ? configs : NULL, &library->device),
                       "deviceCreate", target ? target->name : library->path, diagnostic);
}

// The vendor's code prints a line to standard output when it starts; that stream belongs to our caller. The descriptor is
// the whole process's: callers that write to standard output from other threads should open the library before.
static int silence_stdout(void) {
  fflush(NULL);
  const int saved = dup(STDOUT_FILENO), nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (saved >= 0 && nothing >= 0) dup2(nothing, STDOUT_FILENO);
  if (nothing >= 0) close(nothing);
  return saved;
}

static void restore_stdout(int saved) {
  if (saved < 0) return;
  fflush(NULL);
  dup2(saved, STDOUT_FILENO);
  close(saved);
}

itg_status itg_qnn_library_open(const char *directory, const char *file, const itg_target *target,
                                itg_diagnostic *diagnostic, itg_qnn_library *out) {
  itg_qnn_library library = {0};
  const int saved = silence_stdout();
  itg_status status = itg_qnn_shared_object_open(directory, file, diagnostic, &library);
  if (status == ITG_OK) status = choose_provider(&library, diagnostic);
  if (status == ITG_OK) itg_qnn_set_dsp_path(library.path);
  if (status == ITG_OK)
    status = itg_qnn_check(library.functions->log_create(on_log, ITG_QNN_LOG_WARN, &library.log), "logCreate", file,
                           diagnostic);
  if (status == ITG_OK)
    status = itg_qnn_check(library.functions->backend_create(library.log, NULL, &library.backend), "backendCreate",
                           file, diagnostic);
  if (status == ITG_OK) status = create_device(&library, target, diagnostic);
  const char *build = NULL;
  if (status == ITG_OK && library.functions->backend_get_build_id &&
      library.functions->backend_get_build_id(&build) == 0 && build)
    snprintf(library.build, sizeof library.build, "%s", build);
  restore_stdout(saved);
  if (status != ITG_OK) {
    itg_qnn_library_close(&library);
    return status;
  }
  *out = library;
  return ITG_OK;
}

void itg_qnn_library_close(itg_qnn_library *library) {
  const itg_qnn_functions *functions = library->functions;
  if (functions) {
    if (library->device && functions->device_free) functions->device_free(library->device);
    if (library->backend && functions->backend_free) functions->backend_free(library->backend);
    if (library->log && functions->log_free) functions->log_free(library->log);
  }
  *library = (itg_qnn_library){0};
}
