// Every layer.
#pragma once

#include "nn/layers/activation.h"
#include "nn/layers/batch_norm.h"
#include "nn/layers/cast.h"
#include "nn/layers/conv.h"
#include "nn/layers/conv_norm.h"
#include "nn/layers/dropout.h"
#include "nn/layers/embedding.h"
#include "nn/layers/graph.h"
#include "nn/layers/linear.h"
#include "nn/layers/merge.h"
#include "nn/layers/norm.h"
#include "nn/layers/pool.h"
#include "nn/layers/recurrent.h"
#include "nn/layers/sequential.h"
#include "nn/layers/shape.h"
#include "nn/layers/split.h"
