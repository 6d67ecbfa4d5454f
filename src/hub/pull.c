// Fetching a model into the cache: listing, the files one by one, a record at the end. See intaglio/hub.h.
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "hub/digest.h"
#include "hub/listing.h"
#include "hub/transfer.h"
#include "intaglio/hub.h"

enum { MAX_NAME = 128, MAX_URL = 2048 };
static const size_t MAX_ANSWER = (size_t)8 << 20;
static const char RECORD[] = ".intaglio-pull.json", LOCK[] = ".intaglio-pull.lock";

void itg_hub_options_default(itg_hub_options *options) {
  *options = (itg_hub_options){.struct_size = sizeof *options, .retries = 4};
}

// ---- names ----

const char *itg_hub_task(const char *name) {
  if (strncmp(name, "buffalo_", 8) == 0 || strncmp(name, "antelope", 8) == 0) return "facial-recognition";
  return strstr(name, "PP-OCR") ? "ocr" : "clip";
}

itg_status itg_hub_folder(const char *cache, const char *name, itg_diagnostic *diagnostic, char *folder, size_t size) {
  char clean[MAX_NAME];
  size_t length = 0;
  const char *slash = strrchr(name, '/');
  for (const char *at = slash ? slash + 1 : name; *at; at++) {
    const bool plain =
        (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || (*at >= '0' && *at <= '9') || strchr("_-+", *at);
    if (*at == '.') continue;
    if ((!plain && !strchr(":\\", *at)) || length + 1 >= sizeof clean)
      ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, name, "not the name of a model, such as ViT-B-32__openai or buffalo_l");
    clean[length++] = plain ? *at : '_';
  }
  clean[length] = 0;
  if (length == 0) ITG_FAIL(diagnostic, ITG_ERROR_ARGUMENT, name, "an empty name is no name of a model");
  const int written = snprintf(folder, size, "%s/%s/%s", cache, itg_hub_task(name), clean);
  if (written < 0 || (size_t)written >= size) ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, cache, "the path is too long");
  return ITG_OK;
}

// Makes the folders of `path` up to its last '/'.
static itg_status make_folders(const char *path, itg_diagnostic *diagnostic) {
  char part[PATH_MAX];
  snprintf(part, sizeof part, "%s", path);
  for (char *at = part + 1; (at = strchr(at, '/')); at++) {
    *at = 0;
    if (mkdir(part, 0777) != 0 && errno != EEXIST)
      ITG_FAIL(diagnostic, ITG_ERROR_IO, part, "cannot make this folder: %s", strerror(errno));
    *at = '/';
  }
  return ITG_OK;
}

// ---- the record of what was fetched ----

static json_t *read_record(const char *folder) {
  char path[PATH_MAX];
  if (snprintf(path, sizeof path, "%s/%s", folder, RECORD) >= (int)sizeof path) return NULL;
  return json_load_file(path, 0, NULL);
}

static bool has_size(const char *folder, const char *path, int64_t size) {
  char full[PATH_MAX];
  struct stat info;
  return snprintf(full, sizeof full, "%s/%s", folder, path) < (int)sizeof full && stat(full, &info) == 0 &&
         S_ISREG(info.st_mode) && info.st_size == size;
}

// Number of files when all that the record names are there; 0 otherwise.
static size_t count_recorded(const char *folder) {
  json_t *record = read_record(folder);
  const json_t *files = json_object_get(record, "files"), *file;
  const char *path;
  size_t count = 0;
  bool all = true;
  json_object_foreach((json_t *)files, path, file) {
    all &= has_size(folder, path, json_integer_value(json_object_get(file, "size")));
    count++;
  }
  json_decref(record);
  return all ? count : 0;
}

int itg_hub_is_complete(const char *cache, const char *name) {
  char folder[PATH_MAX];
  return itg_hub_folder(cache, name, NULL, folder, sizeof folder) == ITG_OK && count_recorded(folder) > 0;
}

static const char *checksum_of(const itg_hub_file *file) { return file->sha256 ? file->sha256 : file->git; }

static itg_status write_record(const char *folder, const char *repository, const itg_hub_listing *listing,
                               itg_diagnostic *diagnostic) {
  json_t *root = json_object(), *files = json_object();
  bool good = json_object_set_new(root, "repository", json_string(repository)) == 0 &&
              json_object_set_new(root, "commit", json_string(listing->commit)) == 0;
  for (size_t i = 0; i < listing->count && good; i++) {
    json_t *file = json_object();
    good = json_object_set_new(file, "size", json_integer(listing->files[i].size)) == 0 &&
           json_object_set_new(file, "checksum", json_string(checksum_of(&listing->files[i]))) == 0;
    good = json_object_set_new(files, listing->files[i].path, file) == 0 && good;
  }
  good = json_object_set_new(root, "files", files) == 0 && good;
  char *text = good ? json_dumps(root, JSON_INDENT(2)) : NULL;
  json_decref(root);
  ITG_TRY_MEMORY(text, diagnostic);
  char path[PATH_MAX];
  const bool fits = snprintf(path, sizeof path, "%s/%s", folder, RECORD) < (int)sizeof path;
  const itg_status status =
      fits ? itg_write_file(path, text, strlen(text), diagnostic)
           : itg_fail(diagnostic, ITG_ERROR_LIMIT, folder, __FILE__, __LINE__, "the path is too long");
  free(text);
  return status;
}

// ---- files ----

static itg_status check_file(const char *path, const itg_hub_file *file, itg_diagnostic *diagnostic, bool *good) {
  char actual[ITG_HEX_SHA256];
  itg_mapped_file mapped;
  ITG_TRY(itg_mapped_file_open(path, diagnostic, &mapped));
  if (file->sha256)
    itg_sha256_hex(mapped.bytes, actual);
  else
    itg_git_blob_hex(mapped.bytes, actual);
  itg_mapped_file_close(&mapped);
  *good = strcmp(actual, checksum_of(file)) == 0;
  return ITG_OK;
}

// What one pull works with.
typedef struct pull {
  const itg_hub_options *options;
  itg_transfer *transfer;
  char folder[PATH_MAX];
  char repository[2 * MAX_NAME];
  char endpoint[512]; // Without a slash at its end.
  json_t *record;     // Of an earlier pull, or NULL.
  size_t fetched, kept;
} pull;

static itg_status is_there(const pull *p, const char *path, const itg_hub_file *file, itg_diagnostic *diagnostic,
                           bool *there) {
  const json_t *known = json_object_get(json_object_get(p->record, "files"), file->path);
  const char *checksum = json_string_value(json_object_get(known, "checksum"));
  *there = has_size(p->folder, file->path, file->size);
  if (!*there || (checksum && strcmp(checksum, checksum_of(file)) == 0)) return ITG_OK;
  return check_file(path, file, diagnostic, there);
}

// Appends `text` to a URL with everything escaped that is not plain or '/'.
static void append_escaped(char *url, size_t size, const char *text) {
  size_t length = strlen(url);
  for (; *text && length + 4 < size; text++) {
    const bool plain = (*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') ||
                       (*text >= '0' && *text <= '9') || strchr("-._~/", *text);
    length += (size_t)snprintf(url + length, size - length, plain ? "%c" : "%%%02X", (unsigned char)*text);
  }
}

static itg_status fetch_file(pull *p, const itg_hub_listing *listing, const itg_hub_file *file,
                             itg_diagnostic *diagnostic) {
  char path[PATH_MAX], part[PATH_MAX], url[MAX_URL];
  if (snprintf(part, sizeof part, "%s/%s.incomplete", p->folder, file->path) >= (int)sizeof part)
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, file->path, "the path is too long");
  snprintf(path, sizeof path, "%.*s", (int)(strlen(part) - strlen(".incomplete")), part);
  bool there = false, good = false;
  ITG_TRY(is_there(p, path, file, diagnostic, &there));
  if (there) {
    p->kept++;
    return ITG_OK;
  }
  ITG_TRY(make_folders(path, diagnostic));
  snprintf(url, sizeof url, "%s/", p->endpoint);
  append_escaped(url, sizeof url, p->repository);
  append_escaped(url, sizeof url, "/resolve/");
  append_escaped(url, sizeof url, listing->commit);
  append_escaped(url, sizeof url, "/");
  append_escaped(url, sizeof url, file->path);
  struct stat left;
  bool continued = stat(part, &left) == 0 && left.st_size > 0;
  for (;; continued = false) { // What was continued may have been of another version: then all of it is fetched.
    ITG_TRY(itg_transfer_file(p->transfer, url, part, file->size, file->path, p->options->progress,
                              p->options->progress_context, diagnostic));
    ITG_TRY(check_file(part, file, diagnostic, &good));
    if (good) break;
    unlink(part);
    if (continued) continue;
    ITG_FAIL(diagnostic, ITG_ERROR_FORMAT, file->path,
             "the file's checksum is not the one that the hub states; nothing was kept, pull again");
  }
  if (rename(part, path) != 0) ITG_FAIL(diagnostic, ITG_ERROR_IO, path, "cannot rename: %s", strerror(errno));
  p->fetched++;
  return ITG_OK;
}

static itg_status fetch_listing(pull *p, itg_diagnostic *diagnostic, itg_hub_listing *listing) {
  const char *revision = p->options->revision ? p->options->revision : "main";
  char url[MAX_URL], *body;
  size_t size;
  snprintf(url, sizeof url, "%s/api/models/", p->endpoint);
  append_escaped(url, sizeof url, p->repository);
  append_escaped(url, sizeof url, "/revision/");
  append_escaped(url, sizeof url, revision);
  const size_t length = strlen(url);
  snprintf(url + length, sizeof url - length, "?blobs=true");
  ITG_TRY(itg_transfer_get(p->transfer, url, MAX_ANSWER, diagnostic, &body, &size));
  const itg_status status = itg_hub_listing_read((itg_span){(const uint8_t *)body, size}, diagnostic, listing);
  free(body);
  return status;
}

static itg_status fetch_all(pull *p, itg_diagnostic *diagnostic) {
  itg_hub_listing listing = {0};
  ITG_TRY(fetch_listing(p, diagnostic, &listing));
  itg_status status = ITG_OK;
  if (listing.count == 0)
    status = itg_fail(diagnostic, ITG_ERROR_FORMAT, p->repository, __FILE__, __LINE__, "the repository holds no files");
  for (size_t i = 0; i < listing.count && status == ITG_OK; i++)
    status = fetch_file(p, &listing, &listing.files[i], diagnostic);
  if (status == ITG_OK) status = write_record(p->folder, p->repository, &listing, diagnostic);
  itg_hub_listing_free(&listing);
  return status;
}

// ---- the whole ----

static const char *given_or_environment(const char *given, const char *variable, const char *fallback) {
  const char *set = getenv(variable);
  if (given) return given;
  return set && *set ? set : fallback;
}

static bool is_offline(const itg_hub_options *options) {
  const char *set = getenv("HF_HUB_OFFLINE");
  return options->offline || (set && (strcmp(set, "1") == 0 || strcasecmp(set, "true") == 0));
}

static itg_status lock_and_fetch(pull *p, itg_diagnostic *diagnostic) {
  char path[PATH_MAX];
  if (snprintf(path, sizeof path, "%s/%s", p->folder, LOCK) >= (int)sizeof path)
    ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, p->folder, "the path is too long");
  ITG_TRY(make_folders(path, diagnostic));
  const int lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (lock < 0 || flock(lock, LOCK_EX) != 0) {
    const int error = errno;
    if (lock >= 0) close(lock);
    ITG_FAIL(diagnostic, ITG_ERROR_IO, path, "cannot lock the model's folder: %s", strerror(error));
  }
  const char *token = given_or_environment(p->options->token, "HF_TOKEN", NULL);
  itg_status status = itg_transfer_create(token, p->options->retries, diagnostic, &p->transfer);
  p->record = read_record(p->folder);
  if (status == ITG_OK) status = fetch_all(p, diagnostic);
  json_decref(p->record);
  itg_transfer_destroy(p->transfer);
  close(lock);
  return status;
}

itg_status itg_hub_pull(const char *cache, const char *name, const itg_hub_options *options, itg_diagnostic *diagnostic,
                        size_t *fetched, size_t *kept) {
  pull p = {.options = options};
  ITG_TRY(itg_hub_folder(cache, name, diagnostic, p.folder, sizeof p.folder));
  if (is_offline(options)) {
    p.kept = count_recorded(p.folder);
    if (p.kept == 0)
      ITG_FAIL(diagnostic, ITG_ERROR_IO, name, "offline, and the model is not complete in %.200s; pull it once online",
               p.folder);
  } else {
    const char *organization = options->organization ? options->organization : "immich-app";
    const char *clean = strrchr(p.folder, '/') + 1;
    const char *endpoint = given_or_environment(options->endpoint, "HF_ENDPOINT", "https://huggingface.co");
    size_t length = strlen(endpoint);
    while (length > 0 && endpoint[length - 1] == '/') length--;
    if (length >= sizeof p.endpoint) ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, endpoint, "the endpoint is too long");
    memcpy(p.endpoint, endpoint, length);
    if (snprintf(p.repository, sizeof p.repository, "%s/%s", organization, clean) >= (int)sizeof p.repository)
      ITG_FAIL(diagnostic, ITG_ERROR_LIMIT, organization, "the repository's name is too long");
    ITG_TRY(lock_and_fetch(&p, diagnostic));
  }
  if (fetched) *fetched = p.fetched;
  if (kept) *kept = p.kept;
  return ITG_OK;
}
