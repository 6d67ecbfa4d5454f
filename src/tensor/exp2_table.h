// The fraction table of 2^-x for integer softmax. Freestanding.
#ifndef ITG_TENSOR_EXP2_TABLE_H
#define ITG_TENSOR_EXP2_TABLE_H

#include <stdint.h>

// [257], from 2^31 down to 2^30.
extern const uint32_t itg_exp2_table[257];

#endif
