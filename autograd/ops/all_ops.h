// Every op of every family, in one list. The tools that show ops and the tests that look for an op without a
// row walk it; an op that is missing from its family's list does not exist for them.
#pragma once

#include <vector>

#include "autograd/ops/attention_ops.h"
#include "autograd/ops/boxes_ops.h"
#include "autograd/ops/conv_ops.h"
#include "autograd/ops/elementwise_ops.h"
#include "autograd/ops/index_ops.h"
#include "autograd/ops/loss_ops.h"
#include "autograd/ops/matmul_ops.h"
#include "autograd/ops/norm_ops.h"
#include "autograd/ops/pool_ops.h"
#include "autograd/ops/random_ops.h"
#include "autograd/ops/reduce_ops.h"
#include "autograd/ops/rnn_ops.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/ops/softmax_ops.h"

namespace tandem {

using AllOps = ConcatLists<ElementwiseOps, ReduceOps, MatmulOps, ConvOps, PoolOps, NormOps, SoftmaxOps,
                           LossOps, IndexOps, ShapeOps, RandomOps, RnnOps, AttentionOps, BoxOps>;

// Name, cast rule and roles of every op, sorted by name. Throws InternalError when two ops share a name.
std::vector<const OpInfo*> all_op_infos();

}  // namespace tandem
