#include "core/kernels/rnn.h"

namespace tandem {

RnnReserve host_reserve(const RnnForward& args) {
  RnnReserve reserve;
  if (!args.keep) return reserve;
  const RnnCell cell = args.options.cell;
  const bool lstm = cell == RnnCell::lstm;
  const Tensor& x = args.in.x;
  const Index steps = x.size(0), rows = x.size(1), gates = args.in.weight_hh.size(0);
  const Index units = gates / gates_of(cell);
  TensorOptions own = x.options(), wide = own;
  wide.dtype = wide_of(own.dtype);
  if (args.options.recompute) {
    if (lstm) reserve.states = Tensor::empty({(steps + kRnnSegment - 1) / kRnnSegment, rows, units}, wide);
    return reserve;
  }
  if (lstm || cell == RnnCell::gru) {
    reserve.gates = Tensor::empty({steps, rows, gates}, own);
    reserve.states = Tensor::empty({steps, rows, units}, lstm ? wide : own);
  }
  return reserve;
}

}  // namespace tandem
