// Collectives on device memory against the serial result, ordered with the device's other work.
#include <algorithm>
#include <chrono>
#include <cstdint>

#include "core/backend.h"
#include "core/kernels/update.h"
#include "tests/nccl/checking.h"

namespace tandem::test {

using namespace tandem::parallel;
using parallel::Reduction;  // core/backend.h has another one

namespace {

Elements in(const Tensor& tensor) {
  return {tensor.raw(), static_cast<std::size_t>(tensor.numel()), tensor.dtype()};
}

// Small whole numbers, whose sums every type holds.
double value_of(int rank, Index i) { return static_cast<double>((rank * 7 + i * 3) % 11 - 5); }

Tensor made(int rank, Index count, DType dtype, Device device) {
  std::vector<double> values;
  for (Index i = 0; i < count; ++i) values.push_back(value_of(rank, i));
  const Tensor host = Tensor::from(values, {count});
  const Tensor cast = Tensor::empty({count}, {.dtype = dtype});
  backend_for(Device{}).cast(host, cast);
  return cast.to(device);
}

std::vector<double> values_of(const Tensor& tensor) {
  const Tensor wide = Tensor::empty(tensor.shape(), {.dtype = DType::f64, .device = tensor.device()});
  backend_for(tensor.device()).cast(tensor, wide);
  return wide.to_vector<double>();
}

double reduced(int ranks, Index i, Reduction reduction) {
  double result = value_of(0, i);
  for (int rank = 1; rank < ranks; ++rank) {
    const double value = value_of(rank, i);
    result = reduction == Reduction::sum   ? result + value
             : reduction == Reduction::max ? std::max(result, value)
                                           : std::min(result, value);
  }
  return result;
}

void check_all_reduce(const Joined& joined, Index count, DType dtype, Reduction reduction) {
  DeviceCommunicator& devices = joined.devices;
  const Tensor data = made(devices.rank(), count, dtype, devices.device());
  devices.all_reduce(in(data), reduction);
  devices.join();
  const std::vector<double> got = values_of(data);
  for (Index i = 0; i < count; ++i)
    expect(got[static_cast<std::size_t>(i)] == reduced(devices.size(), i, reduction),
           "all_reduce of {} {}: element {} is {}", count, name_of(dtype), i,
           got[static_cast<std::size_t>(i)]);
}

void check_division(const Joined& joined, Index part, DType dtype) {
  DeviceCommunicator& devices = joined.devices;
  const int ranks = devices.size();
  const Index all = part * ranks, first = part * devices.rank();
  const Tensor data = made(devices.rank(), all, dtype, devices.device());
  const Tensor own = data.rows(first, part);  // in its place
  devices.reduce_scatter(in(data), in(own), Reduction::sum);
  devices.join();
  const std::vector<double> sums = values_of(own.clone());
  for (Index i = 0; i < part; ++i)
    expect(sums[static_cast<std::size_t>(i)] == reduced(ranks, first + i, Reduction::sum),
           "reduce_scatter of {}: element {}", all, i);
  devices.all_gather(in(own), in(data));
  devices.join();
  const std::vector<double> got = values_of(data);
  for (Index i = 0; i < all; ++i)
    expect(got[static_cast<std::size_t>(i)] == reduced(ranks, i, Reduction::sum),
           "all_gather of {}: element {}", all, i);
  for (int root = 0; root < ranks; ++root) {
    const Tensor sent = made(devices.rank(), part, dtype, devices.device());
    devices.broadcast(in(sent), root);
    devices.join();
    const std::vector<double> heard = values_of(sent);
    for (Index i = 0; i < part; ++i)
      expect(heard[static_cast<std::size_t>(i)] == value_of(root, i), "broadcast from {}: element {}", root,
             i);
  }
}

// What was asked for before comes before, and what is asked for behind `join` comes after.
void check_order(const Joined& joined) {
  DeviceCommunicator& devices = joined.devices;
  Backend& backend = backend_for(devices.device());
  constexpr Index kCount = 10000;
  const Tensor first = Tensor::empty({kCount}, {.dtype = DType::f32, .device = devices.device()});
  const Tensor second = Tensor::empty({kCount}, {.dtype = DType::f32, .device = devices.device()});
  for (int round = 1; round <= 3; ++round) {
    backend.fill(first, round);
    devices.all_reduce(in(first), Reduction::sum);
    backend.fill(second, 2.0 * round);  // beside it
    devices.all_reduce(in(second), Reduction::sum);
    Pending pending = devices.pending();
    backend.update().scale_and_limit(first, 0.5, 1e30);
    pending.wait(joined.deadline_s);
    expect(pending.test(), "what was waited for has ended");
    for (const double value : values_of(first))
      expect(value == 0.5 * round * devices.size(), "the first sum is {} in round {}", value, round);
    for (const double value : values_of(second))
      expect(value == 2.0 * round * devices.size(), "the second sum is {} in round {}", value, round);
  }
}

}  // namespace

void check_collectives(const Joined& joined) {
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64, DType::i32})
    for (const Index count : {Index{0}, Index{1}, Index{1001}})
      for (const Reduction reduction : {Reduction::sum, Reduction::max, Reduction::min})
        check_all_reduce(joined, count, dtype, reduction);
  check_all_reduce(joined, 300001, DType::f32, Reduction::sum);
  for (const Index part : {1, 77, 70000}) check_division(joined, part, DType::f32);
  check_division(joined, 5, DType::bf16);
  check_order(joined);
  // Several as one, of several types.
  DeviceCommunicator& devices = joined.devices;
  const Tensor sum = made(devices.rank(), 3, DType::f64, devices.device());
  const Tensor most = made(devices.rank(), 2, DType::i32, devices.device());
  const ReducedElements both[] = {{in(sum), Reduction::sum}, {in(most), Reduction::max}};
  devices.all_reduce(both);
  devices.join();
  for (Index i = 0; i < 3; ++i)
    expect(values_of(sum)[static_cast<std::size_t>(i)] == reduced(devices.size(), i, Reduction::sum),
           "sums beside maxima");
  for (Index i = 0; i < 2; ++i)
    expect(values_of(most)[static_cast<std::size_t>(i)] == reduced(devices.size(), i, Reduction::max),
           "maxima beside sums");
}

void check_recorded_collectives(const Joined& joined) {
  DeviceCommunicator& devices = joined.devices;
  Backend& backend = backend_for(devices.device());
  constexpr Index kCount = 5000;
  const Tensor data = Tensor::empty({kCount}, {.dtype = DType::f32, .device = devices.device()});
  const Tensor start = Tensor::empty({kCount}, {.dtype = DType::f32, .device = devices.device()});
  const auto recording = backend.record([&] {
    backend.copy_bytes(start, data);
    devices.all_reduce(in(data), Reduction::sum);
    devices.join();
    backend.update().scale_and_limit(data, 2.0, 1e30);
    devices.all_reduce(in(data), Reduction::max);
    devices.join();
  });
  for (int round = 1; round <= 3; ++round) {
    backend.fill(start, round * (devices.rank() + 1));
    recording->replay();
    const double wanted = round * devices.size() * (devices.size() + 1);
    for (const double value : values_of(data))
      expect(value == wanted, "round {}: {} for {}", round, value, wanted);
  }
}

void reduce_for_ever(const Joined& joined) {
  DeviceCommunicator& devices = joined.devices;
  const Tensor data = made(devices.rank(), 1000, DType::f32, devices.device());
  for (int step = 0;; ++step) {
    devices.begin_step();
    devices.all_reduce(in(data), Reduction::max);
    devices.join();
    backend_for(devices.device()).synchronize();
    if (step == 3 && devices.rank() == 0) {
      std::puts("reducing");
      std::fflush(stdout);
    }
  }
}

void do_different_things(const Joined& joined) {
  DeviceCommunicator& devices = joined.devices;
  const Tensor data = made(devices.rank(), 1000, DType::f32, devices.device());
  devices.begin_step();
  devices.all_reduce({data.raw(), devices.rank() == 0 ? 1000u : 999u, DType::f32}, Reduction::sum);
  devices.join();
  backend_for(devices.device()).synchronize();
}

void measure(const Joined& joined) {
  using Clock = std::chrono::steady_clock;
  constexpr int kWarm = 5, kTimes = 50;
  DeviceCommunicator& devices = joined.devices;
  Backend& backend = backend_for(devices.device());
  for (const Index count : {Index{1}, Index{1} << 10, Index{1} << 16, Index{1} << 20, Index{1} << 24}) {
    const Tensor data = Tensor::zeros({count}, {.dtype = DType::f32, .device = devices.device()});
    Clock::time_point begun;
    for (int i = 0; i < kWarm + kTimes; ++i) {
      if (i == kWarm) {
        backend.synchronize();
        begun = Clock::now();
      }
      devices.all_reduce(in(data), Reduction::sum);
      devices.join();
    }
    backend.synchronize();
    const double seconds = std::chrono::duration<double>(Clock::now() - begun).count() / kTimes;
    if (devices.rank() == 0)
      fmt::print("all-reduce of {} f32 by {} ranks: {:.2f} us\n", count, devices.size(), 1e6 * seconds);
  }
}

}  // namespace tandem::test
