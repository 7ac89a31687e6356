#include "train/process_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "core/error.h"
#include "files/digest.h"
#include "parallel/device_exchange.h"
#include "parallel/nccl/open.h"
#include "parallel/one_process.h"
#include "parallel/partition.h"
#include "tasks/record.h"

namespace tandem::train {

namespace {

constexpr Index kReproducibleShards = 8;

// Default number of shards. In the reproducible mode it does not depend on the number of ranks.
Index usual_shards(const config::ParallelConfig& options, int ranks, Index batch_size) {
  if (options.reduction != "reproducible") return ranks;
  Index shards = kReproducibleShards;
  while (shards > batch_size) shards /= 2;
  return shards;
}

int checked_shards(const config::ParallelConfig& options, int ranks, Index batch_size) {
  const Index shards = options.shards.value_or(usual_shards(options, ranks, batch_size));
  require(shards <= batch_size, "",
          "parallel.shards: {} shards for a batch of {} samples (data.batch_size): a shard needs at least "
          "one sample{}",
          shards, batch_size, options.shards ? "" : fmt::format("; start at most {} ranks", batch_size));
  require(shards >= ranks, "",
          "parallel.shards: {} for {} ranks: each rank computes whole shards; use more shards, or start "
          "fewer ranks",
          shards, ranks);
  return static_cast<int>(shards);
}

DType wire_of(const config::ParallelConfig& options) {
  return options.wire == "fp16" ? DType::f16 : options.wire == "bf16" ? DType::bf16 : DType::f32;
}

void check_wire(const config::ParallelConfig& options, int ranks, int shards) {
  if (options.wire == "fp32" || ranks == 1) return;
  require(options.reduction == "fast", "",
          "parallel.wire: {} rounds partial sums, and parallel.reduction: reproducible adds in FP32; use "
          "only one of them",
          options.wire);
  require(shards == ranks, "",
          "parallel.wire: {} needs one shard per rank, {} ranks have {}; leave parallel.shards out",
          options.wire, ranks, shards);
}

// Synchronised ranks wait for each other in every layer, so a rank cannot compute several shards in turn.
void check_batch_norm(const config::ParallelConfig& options, int ranks, int shards) {
  if (!options.sync_batch_norm || shards == 1) return;
  require(options.reduction == "fast" && shards == ranks, "",
          "parallel.sync_batch_norm: needs one shard per rank, not {} shards{} on {} rank{}, which may be "
          "computed one after the other; leave parallel.shards and parallel.reduction out",
          shards, options.reduction == "fast" ? "" : " (parallel.reduction: reproducible)", ranks,
          ranks == 1 ? "" : "s");
}

// The digest of each tensor's values.
tasks::Record digests_of(const std::vector<optim::NamedTensor>& tensors) {
  tasks::RecordWriter writer;
  for (const auto& [name, tensor] : tensors) {
    const Tensor host = tensor.to(Device{});
    files::Sha256 digest;
    digest.add({static_cast<const char*>(host.raw()), host.bytes()});
    writer.put_text(digest.hex());
  }
  return std::move(writer).record();
}

}  // namespace

ProcessGroup::ProcessGroup(parallel::Communicator* communicator, const config::ParallelConfig& options,
                           Index batch_size)
    : alone_(communicator ? nullptr : std::make_unique<parallel::OneProcess>()),
      communicator_(communicator ? *communicator : *alone_),
      options_(options),
      shards_(checked_shards(options, communicator_.size(), batch_size)),
      own_(parallel::part_of_rank(static_cast<std::size_t>(shards_), size(), rank())) {
  check_wire(options_, size(), shards_);
  check_batch_norm(options_, size(), shards_);
}

datasets::ShardSpec ProcessGroup::division() const {
  return {.parts = shards_, .first = static_cast<Index>(own_.first), .count = own()};
}

std::string ProcessGroup::text() const {
  std::string text = several() ? fmt::format("{} ranks", size()) : "";
  const bool reproducible = options_.reduction == "reproducible";
  if (divided() && (shards_ != size() || reproducible))
    text += fmt::format("{}{} shards{}", text.empty() ? "" : ", ", shards_,
                        reproducible ? " added reproducibly" : "");
  if (syncs_batch_norm()) text += ", one batch norm";
  if (update_parts() > 1) text += ", optimizer state divided";
  return text;
}

std::unique_ptr<optim::ShardExchange> ProcessGroup::exchange(double usual_samples, Device device) {
  if (!divided()) return nullptr;
  constexpr double kMegabyte = 1e6;
  const auto bucket_bytes = static_cast<std::size_t>(options_.bucket_mb * kMegabyte);
  const parallel::ShardExchangeOptions options{
      .shards = shards_,
      .usual_samples = usual_samples,
      .reproducible = options_.reduction == "reproducible",
      .deadline_s = options_.deadline_s,
      .bucket_bytes = bucket_bytes > 0 ? bucket_bytes : std::numeric_limits<std::size_t>::max(),
      .wire = wire_of(options_),
      .flag = &flag_};
  std::optional<parallel::WireError>* const error = options_.wire == "fp32" ? nullptr : &wire_error_;
  if (device == Device{}) return parallel::make_shard_exchange(communicator_, options, error);
  parallel::require_device_shards(options, size());
  if (!devices_) devices_ = parallel::open_nccl(communicator_, device, options_.deadline_s);
  return parallel::make_device_exchange(communicator_, *devices_, options, error);
}

void ProcessGroup::join_devices() {
  if (devices_) devices_->connect();
}

std::unique_ptr<parallel::RankPeers> ProcessGroup::batch_norm_peers() {
  if (!syncs_batch_norm()) return nullptr;
  return std::make_unique<parallel::RankPeers>(communicator_, options_.deadline_s);
}

bool ProcessGroup::any(bool here) {
  if (!several()) return here;
  return communicator_.all_reduce_value(std::int64_t{here}, parallel::Reduction::max, deadline_s()) != 0;
}

std::vector<std::string> ProcessGroup::texts(std::string_view own) {
  return communicator_.all_gather_text(own, deadline_s());
}

std::vector<std::byte> ProcessGroup::from_first(std::span<const std::byte> bytes) {
  return communicator_.broadcast_bytes(bytes, 0, deadline_s());
}

void ProcessGroup::take_from_first(const Tensor& tensor) {
  const Tensor host = tensor.device() == Device{} ? tensor : tensor.to(Device{});
  communicator_.broadcast(parallel::Elements(host.raw(), host.bytes(), DType::u8), 0, deadline_s());
  if (first()) return;
  if (tensor.device() != Device{}) backend_for(tensor.device()).copy_bytes(host, tensor);
  tensor.storage()->bump_version();
}

void ProcessGroup::take_from_first(nn::Module& module) {
  for (const Parameter& parameter : module.parameters()) take_from_first(parameter.value());
  for (const nn::Statistic& statistic : module.statistics()) {
    take_from_first(statistic.live);
    take_from_first(statistic.next);
  }
}

std::optional<std::string> ProcessGroup::difference(const std::vector<optim::NamedTensor>& tensors) {
  if (!several()) return std::nullopt;
  std::vector<std::vector<std::string>> digests;
  for (const auto& record : communicator_.all_gather_bytes(digests_of(tensors), deadline_s())) {
    tasks::RecordReader reader(record);
    auto& of_rank = digests.emplace_back();
    for (std::size_t i = 0; i < tensors.size(); ++i) of_rank.push_back(reader.take_text());
    reader.end();
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    std::vector<int> others;
    for (std::size_t r = 1; r < digests.size(); ++r)
      if (digests[r][i] != digests[0][i]) others.push_back(static_cast<int>(r));
    if (!others.empty())
      return fmt::format("{} of rank{} {} differs from that of rank 0", tensors[i].first,
                         others.size() == 1 ? "" : "s", fmt::join(others, ", "));
  }
  return std::nullopt;
}

void ProcessGroup::require_same(const std::vector<optim::NamedTensor>& tensors, std::string_view when) {
  if (const auto differs = difference(tensors))
    throw parallel::AgreedError(fmt::format("{} {}, though all ranks took the same steps: a machine or this "
                                            "program is faulty; resume from the last checkpoint",
                                            when, *differs),
                                false);
}

tasks::CarriedState ProcessGroup::whole(const std::vector<tasks::CarriedState>& own) {
  if (!several()) return tasks::CarriedState::joined(own);
  tasks::RecordWriter writer;
  for (const tasks::CarriedState& carry : own) {
    writer.put(carry.fields().size());
    for (const auto& field : carry.fields()) writer.put_text(field.name).put_tensor(field.value);
  }
  const auto records = communicator_.gather_bytes(std::move(writer).record(), deadline_s());
  std::vector<tasks::CarriedState> parts;
  for (std::size_t r = 0; r < records.size(); ++r) {
    tasks::RecordReader reader(records[r]);
    const Range shards =
        parallel::part_of_rank(static_cast<std::size_t>(shards_), size(), static_cast<int>(r));
    for (std::size_t shard = shards.first; shard < shards.last; ++shard) {
      tasks::CarriedState& carry = parts.emplace_back();
      for (auto fields = reader.take<std::size_t>(); fields > 0; --fields) {
        const std::string name = reader.take_text();
        carry.set(name, reader.take_tensor());
      }
    }
    reader.end();
  }
  return tasks::CarriedState::joined(parts);
}

std::vector<tasks::CarriedState> ProcessGroup::parts(const tasks::CarriedState& whole) const {
  if (!divided()) return {whole};
  const std::vector<tasks::CarriedState> all = whole.divided(shards_);
  return {all.begin() + static_cast<std::ptrdiff_t>(own_.first),
          all.begin() + static_cast<std::ptrdiff_t>(own_.last)};
}

}  // namespace tandem::train
