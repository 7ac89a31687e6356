// List of every op of every family, for tools that list ops and for tests that find ops without a row. An op
// that is missing from its family's list is invisible to them.
#pragma once

#include <string>
#include <string_view>
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

// All built-in ops, sorted by name. Throws InternalError when two ops share a name.
std::vector<const OpInfo*> all_op_infos();

// The op of that name: built-in, or applied by the program from outside the tree; nullptr if unknown.
const OpInfo* find_op(std::string_view name);
// All names that find_op knows, sorted.
std::vector<std::string> op_names();

}  // namespace tandem
