// Depth-wise convolutions: one input channel a group, as many outputs as inputs.
#ifndef ITG_INTERPRET_CONVOLUTION_H
#define ITG_INTERPRET_CONVOLUTION_H

#include "interpret/executor.h"

bool itg_depthwise_applies(const itg_call *call); // The node is CONV.
itg_status itg_prepare_depthwise(const itg_call *call, itg_preparation *preparation, itg_diagnostic *diagnostic);
void itg_run_depthwise(const itg_call *call);

#endif
