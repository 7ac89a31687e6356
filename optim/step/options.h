// Options of a Step.
#pragma once

#include <optional>

#include "optim/ema.h"
#include "optim/loss_scaler.h"
#include "optim/schedules.h"
#include "optim/step/shards.h"

namespace tandem::optim {

struct StepOptions {
  ScalerOptions scaler{};
  LossScaler* shared_scaler = nullptr;  // instead of an own scaler; must outlive the step
  // Learning-rate schedule; default: the optimizer's constant rate. With a schedule, the first optimizer's lr
  // is either not given or the schedule's peak; other optimizers keep their ratio to the first.
  std::optional<Schedule> schedule{};
  std::optional<double> clip_norm{};   // of the mean gradient, all parameters together
  std::optional<double> clip_value{};  // bound of every element, after clip_norm
  int accumulate = 1;                  // micro-batches of a step at most
  // Unit of weights, see MicroBatches; the same in all processes. Absent: usual_samples() of `shards`, or
  // else the first micro-batch of a step.
  std::optional<double> unit{};
  std::optional<EmaOptions> ema{};
  // Type of the working copies that a mixed-precision forward reads instead of the masters; written in the
  // pass of the update. Absent: no copies.
  std::optional<DType> working{};
  // Storage without masters: updates are rounded as if the buffers had a 16-bit type, and so are the initial
  // values.
  StorageRounding rounding{};
  // 16-bit type whose grid running statistics are rounded to. Absent: f32.
  std::optional<DType> round_statistics{};
  bool skip_non_finite = true;  // off: applies non-finite gradients like any other
  // Reads the gradients once for finiteness and norm. Off saves that pass; then no step is skipped and no
  // norm is reported. clip_norm needs it.
  bool check_gradients = true;
  // Shards of the batch, summed before the gradients are checked; parameters without a gradient take part
  // with zeros. Must outlive the step.
  ShardExchange* shards = nullptr;
  // Sharded update: `shards` joins `update_parts` processes, this one is number `own_part`, and each holds
  // only the moments of its part of the flat buffers. The bits equal those of an undivided update if the sums
  // over shards do (ShardExchange::sum_parts).
  int update_parts = 1, own_part = 0;
};

// Throws UserError for numbers out of range and for contradictions with the scaler, which is the step's own
// or shared. `device`: of the parameters.
void check(const StepOptions& options, const LossScaler& scaler, Device device);

}  // namespace tandem::optim
