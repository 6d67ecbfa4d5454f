// Links libintaglio alone and calls through every part of its surface.
#include <stdio.h>

#include "intaglio/intaglio.h"

int main(void) {
  itg_model *model = NULL;
  itg_session *session = NULL;
  itg_diagnostic why = {0};
  const char bytes[128] = "not a model";
  if (itg_model_open("/nonexistent.itg", &why, &model) != ITG_ERROR_IO) return 1;
  if (itg_model_open_memory(bytes, sizeof bytes, &why, &model) != ITG_ERROR_FORMAT) return 2;
  if (itg_session_create(NULL, NULL, &why, &session) != ITG_ERROR_ARGUMENT) return 3;
  itg_session_destroy(session);
  itg_model_close(model);
  printf("%s %s: %s\n", ITG_VERSION, itg_status_name(why.status), why.message);
  return 0;
}
