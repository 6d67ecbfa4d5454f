// face_embed MODEL.itg CROP.ppm: prints the embedding of an aligned 112x112 face, with the runtime alone.
// Build: cc face_embed.c -lintaglio -lpthread -lm
#include <intaglio/intaglio.h>
#include <stdio.h>

enum { SIDE = 112, PLANE = SIDE * SIDE };
static unsigned char crop[PLANE][3];
static float pixels[3 * PLANE], embedding[4096];

int main(int argc, char **argv) {
  itg_model *model = NULL;
  itg_session *session = NULL;
  itg_diagnostic why = {0};
  FILE *file = argc == 3 ? fopen(argv[2], "rb") : NULL;
  if (!file || fscanf(file, "P6 112 112 255") != 0 || fgetc(file) == EOF || fread(crop, 3, PLANE, file) != PLANE)
    return fprintf(stderr, "usage: face_embed MODEL.itg CROP.ppm (binary, 112x112)\n"), 2;
  fclose(file);
  for (int i = 0; i < PLANE; i++) // [1,3,112,112], blue first.
    for (int c = 0; c < 3; c++) pixels[c * PLANE + i] = ((float)crop[i][2 - c] - 127.0f) / 128.0f;
  itg_status status = itg_model_open(argv[1], &why, &model);
  if (status == ITG_OK) status = itg_session_create(model, NULL, &why, &session);
  const size_t count = status == ITG_OK ? itg_model_output(model, 0)->count : 0;
  if (status == ITG_OK) status = itg_session_set_input(session, 0, pixels, 3 * PLANE, &why);
  if (status == ITG_OK) status = itg_session_run(session, &why);
  if (status == ITG_OK) status = itg_session_get_output(session, 0, embedding, count < 4096 ? count : 4096, &why);
  for (size_t i = 0; status == ITG_OK && i < count; i++) printf("%.6g\n", embedding[i]);
  if (status != ITG_OK) fprintf(stderr, "%s: %s\n", itg_status_name(status), why.message);
  itg_session_destroy(session);
  itg_model_close(model);
  return status != ITG_OK;
}
