// What a Step can be told.
#pragma once

#include <optional>

#include "optim/ema.h"
#include "optim/loss_scaler.h"
#include "optim/schedules.h"
#include "optim/step/shards.h"

namespace tandem::optim {

struct StepOptions {
  ScalerOptions scaler{};
  LossScaler* shared_scaler = nullptr;  // instead of a scaler of its own; must outlive the step
  // The learning rate; without one it is the optimizer's. With one, the first optimizer's lr is either not
  // given or the schedule's peak; further optimizers keep their ratio to the first.
  std::optional<Schedule> schedule{};
  std::optional<double> clip_norm{};   // of the mean gradient, all parameters together
  std::optional<double> clip_value{};  // of every element, after clip_norm
  int accumulate = 1;                  // micro-batches a step has at most
  // See MicroBatches; the same in all processes. Absent: usual_samples() of `shards`, without them the first
  // micro-batch of a step.
  std::optional<double> unit{};
  std::optional<EmaOptions> ema{};
  // The type of the copies that the forward pass of a mixed-precision run reads instead of the masters; the
  // update writes them in its one pass. Absent: no copies.
  std::optional<DType> working{};
  // No masters: what the update stores is rounded as if the buffers had a 16-bit type. The values of the
  // parameters at the start are rounded too.
  StorageRounding rounding{};
  // Running statistics are held on the grid of this 16-bit type. Absent: f32.
  std::optional<DType> round_statistics{};
  bool skip_non_finite = true;  // off: a non-finite gradient is applied like any other
  // Whether the gradients are read once for finiteness and norm. Off saves that pass; then nothing is skipped
  // and no norm is reported. clip_norm needs it.
  bool check_gradients = true;
  // The batch comes in shards, which are added up before the gradients are checked; parameters without a
  // gradient take part with zeros. Must outlive the step.
  ShardExchange* shards = nullptr;
  // The update is divided among so many processes, which `shards` joins, of which this is number `own_part`:
  // each has moments of its part of the flat buffers alone. The bits are those of an undivided update, where
  // the sums over shards are (ShardExchange::sum_parts).
  int update_parts = 1, own_part = 0;
};

// Throws UserError for numbers out of range and for what contradicts the scaler, which is the step's own or
// shared. `device`: of the parameters.
void check(const StepOptions& options, const LossScaler& scaler, Device device);

}  // namespace tandem::optim
