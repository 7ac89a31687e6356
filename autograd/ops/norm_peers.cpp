#include "autograd/ops/norm_peers.h"

#include <algorithm>
#include <vector>

#include "core/backend.h"
#include "core/error.h"
#include "core/kernels/norm.h"

namespace tandem {

namespace {
thread_local BatchNormPeers* peers_here = nullptr;
}  // namespace

BatchNormPeersScope::BatchNormPeersScope(BatchNormPeers* peers) : ScopedValue(peers_here, peers) {}
BatchNormPeers* BatchNormPeersScope::current() { return peers_here; }

namespace ops {

namespace {

Tensor wide_vector(Index channels, double value) {
  return Tensor::full(Shape{channels}, value, {.dtype = DType::f64});
}

Index rows_of(const Tensor& x) { return x.numel() / std::max<Index>(1, x.size(-1)); }

// Moments of this shard: means, and Σ (x - mean)².
struct OwnMoments {
  std::vector<double> mean, deviation;
};

OwnMoments from_sums(const Tensor& sums, std::size_t channels, double rows) {
  const std::vector<double> given = sums.to_vector<double>();  // Σ x, then Σ x²
  OwnMoments own;
  for (std::size_t c = 0; c < channels; ++c) {
    own.mean.push_back(given[c] / rows);
    const double deviation = given[channels + c] - given[c] * own.mean[c];
    own.deviation.push_back(deviation < 0.0 ? 0.0 : deviation);  // keeps NaN
  }
  return own;
}

// Uses the batch-norm kernel without writing y: with momentum 1 the running variance is the batch's.
OwnMoments from_values(const Tensor& x, Index channels, double rows) {
  const Tensor mean = wide_vector(channels, 0.0), var = wide_vector(channels, 0.0);
  BatchNormForward args;
  args.x = x;
  args.mean = mean;
  args.rstd = wide_vector(channels, 0.0);
  args.running_mean = args.running_var = wide_vector(channels, 0.0);
  args.next_var = var;
  args.momentum = 1.0;
  backend_for(x.device()).norm().batch_norm_train(args);
  OwnMoments own{mean.to_vector<double>(), var.to_vector<double>()};
  for (double& value : own.deviation) value = rows > 1.0 ? value * (rows - 1.0) : 0.0;
  return own;
}

}  // namespace

SharedMoments shared_moments(BatchNormPeers& peers, const Tensor& x, const Tensor& sums) {
  require(x.device() == Device{}, BatchNormTrain::info.name,
          "statistics over several processes need the CPU, x is on {}", to_string(x.device()));
  const Index channels = x.size(-1);
  const auto count = static_cast<std::size_t>(channels);
  const auto rows = static_cast<double>(rows_of(x));
  OwnMoments own;
  if (rows == 0.0) {
    own.mean.resize(count);
    own.deviation.resize(count);
  } else {
    own = sums.defined() ? from_sums(sums, count, rows) : from_values(x, channels, rows);
  }
  std::vector<double> totals;
  for (const double mean : own.mean) totals.push_back(rows * mean);
  totals.push_back(rows);
  peers.sum(totals);
  SharedMoments shared{wide_vector(channels, 0.0), wide_vector(channels, 0.0), totals.back()};
  require(channels == 0 || shared.count > 1.0, BatchNormTrain::info.name,
          "{} has {} value(s) per channel over all shards, statistics need at least 2; use a larger batch or "
          "evaluation mode",
          to_string(x), shared.count);
  double* const mean = shared.mean.data<double>();
  std::vector<double> squares;
  for (std::size_t c = 0; c < count; ++c) {
    mean[c] = totals[c] / shared.count;
    const double apart = own.mean[c] - mean[c];
    squares.push_back(rows == 0.0 ? 0.0 : own.deviation[c] + rows * apart * apart);
  }
  peers.sum(squares);
  double* const var = shared.var.data<double>();
  for (std::size_t c = 0; c < count; ++c) var[c] = squares[c] / shared.count;
  return shared;
}

// With g the masked dy, N values a channel and totals over all peers,
//   dx = gamma·rstd·(g − Σg / N − (x − mean)·rstd·dgamma / N).
// dx already holds the first term. The rest is linear in x, like batch norm with constants.
void add_shared_gradient(BatchNormPeers& peers, const BatchNormTensors::Saved& saved, const Tensor& dgamma,
                         const Tensor& dbeta, const Tensor& frozen_dx, const Tensor& dx) {
  const Index channels = saved.mean.numel();
  const auto count = static_cast<std::size_t>(channels);
  std::vector<double> totals = dgamma.to_vector<double>();
  const std::vector<double> own_dbeta = dbeta.to_vector<double>();
  totals.insert(totals.end(), own_dbeta.begin(), own_dbeta.end());
  totals.push_back(static_cast<double>(rows_of(saved.x)));
  peers.sum(totals);
  if (!dx.defined() || dx.numel() == 0) return;
  const std::vector<double> rstd = saved.rstd.to_vector<double>();
  const std::vector<double> gamma =
      saved.gamma.defined() ? saved.gamma.to_vector<double>() : std::vector<double>(count, 1.0);
  const Tensor slope = wide_vector(channels, 0.0), offset = wide_vector(channels, 0.0);
  for (std::size_t c = 0; c < count; ++c) {
    const double scale = gamma[c] * rstd[c] / totals.back();
    slope.data<double>()[c] = -scale * rstd[c] * totals[c];
    offset.data<double>()[c] = -scale * totals[count + c];
  }
  BatchNormForward rest;
  rest.x = saved.x;
  rest.residual = frozen_dx;
  rest.gamma = slope;
  rest.beta = offset;
  rest.running_mean = saved.mean;
  rest.running_var = wide_vector(channels, 1.0);
  rest.eps = 0.0;
  rest.y = dx;
  backend_for(dx.device()).norm().batch_norm_infer(rest);
}

}  // namespace ops

}  // namespace tandem
