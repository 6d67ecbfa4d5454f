// Where the NPU's own loader looks for the skeleton (libQnnHtpV68Skel.so): folders of this machine, named by ADSP_LIBRARY_PATH
// and read by the FastRPC library at the first call. The x86-64 simulator needs none of it.
#ifndef ITG_NPU_QNN_DSP_PATH_H
#define ITG_NPU_QNN_DSP_PATH_H

#include <stdbool.h>
#include <stddef.h>

// Places below `root` ("": this machine) that DSP files lie in, patterns of glob(3); NULL past the end.
const char *itg_qnn_dsp_folder(size_t index);
// The value for a library at `library_path`: its folder when a skeleton lies beside it, then the usual folders that exist,
// separated by ';'. False when there is none.
bool itg_qnn_dsp_path(const char *root, const char *library_path, char *text, size_t size);
// Sets ADSP_LIBRARY_PATH for this process when it is not set and there is such a folder. Changes the environment: open the first
// session before other threads read it.
void itg_qnn_set_dsp_path(const char *library_path);

#endif
