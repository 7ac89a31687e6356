#include "studies/profile/recorder.h"

#include <algorithm>

#include "autograd/node.h"

namespace tandem::profile {

namespace {

// Products of a backward rule, and their bias sums.
bool is_part_of(const OpInfo& op, const OpInfo& outer) {
  return op.traits.products || (outer.traits.products && op.traits.kind == OpKind::reduces);
}

bool rearranges(const OpTraits& op) { return op.moves_values() || op.kind == OpKind::joins; }

// Whether the op reads at most as many elements of each input as it writes.
bool reads_part(const OpTraits& op) {
  return rearranges(op) || op.kind == OpKind::gathers || op.kind == OpKind::looks_up;
}

// Whether an input gradient in the memory of an output gradient was passed on; for other ops it was written
// in place.
bool hands_on(const OpTraits& op) {
  return rearranges(op) || op.kind == OpKind::adds || op.kind == OpKind::casts;
}

}  // namespace

void add_names(std::string& names, std::string_view more) {
  constexpr std::string_view separator = ", ";
  while (!more.empty()) {
    const std::size_t length = std::min(more.find(separator), more.size());
    const std::string name(more.substr(0, length));
    const auto delimited = [&](const std::string& text) { return ", " + text + ", "; };
    if (delimited(names).find(delimited(name)) == std::string::npos)
      names += (names.empty() ? "" : ", ") + name;
    more.remove_prefix(std::min(length + separator.size(), more.size()));
  }
}

Recorder::Piece Recorder::piece_of(const Tensor& tensor) {
  return {tensor.raw(), static_cast<std::int64_t>(tensor.bytes())};
}

// Returns false if the tensor is undefined or already in the list.
bool Recorder::add(std::vector<Piece>& pieces, const Tensor& tensor) {
  if (!tensor.defined() || contains(pieces, tensor)) return false;
  pieces.push_back(piece_of(tensor));
  return true;
}

bool Recorder::contains(const std::vector<Piece>& pieces, const Tensor& tensor) {
  return std::ranges::find(pieces, piece_of(tensor)) != pieces.end();
}

void Recorder::begin_step() {
  calls_.clear();
  frames_.clear();
  stages_.clear();
  shapes_of_.clear();
  fused_flop_.clear();
  if (backend_.device().type == DeviceType::cpu) convolutions_.emplace();
  step_first_ = backend_.timestamp();
}

void Recorder::end_step() {
  const std::uint64_t last = backend_.timestamp();
  convolutions_.reset();
  step_seconds_ = backend_.seconds_between(step_first_, last);
  stage_seconds_ = {};
  for (const Span& span : stages_) {
    if (!span.open)
      stage_seconds_[static_cast<std::size_t>(span.stage)] += backend_.seconds_between(span.first, span.last);
  }
  for (Call& call : calls_) call.seconds = backend_.seconds_between(call.first, call.last);
  for (const Call& call : calls_) {
    if (call.inserted_for >= 0) calls_[static_cast<std::size_t>(call.inserted_for)].seconds -= call.seconds;
  }
  backend_.clear_timestamps();
}

void Recorder::note_algorithms() {
  if (!convolutions_) return;
  const auto names = convolutions_->take();
  const auto frame =
      std::find_if(frames_.rbegin(), frames_.rend(), [](const Frame& f) { return f.call >= 0; });
  if (names.empty() || frame == frames_.rend()) return;
  Call& call = calls_[static_cast<std::size_t>(frame->call)];
  std::string all = algorithms(call);
  for (const std::string& name : names) add_names(all, name);
  call.algorithms = index_of(all);
}

void Recorder::open(Call call) {
  note_algorithms();
  frames_.push_back({.call = static_cast<std::int32_t>(calls_.size()), .direction = call.direction});
  calls_.push_back(call);
  calls_.back().first = backend_.timestamp();
}

// The FLOP of a frame include those of inner ops, and are added to the outer frame.
Recorder::Frame Recorder::close() {
  note_algorithms();
  const Frame frame = frames_.back();
  frames_.pop_back();
  if (frame.call >= 0) {
    Call& call = calls_[static_cast<std::size_t>(frame.call)];
    call.flop = frame.flop;
    call.operands = frame.operands;
  }
  if (!frames_.empty() && frame.flop > 0) {
    frames_.back().flop += frame.flop;
    frames_.back().operands = frame.operands;
  }
  return frame;
}

void Recorder::before_forward(const OpInfo& op, std::span<const Tensor>) {
  if (frames_.empty()) {
    open({.op = &op});
    return;
  }
  const Frame outer = frames_.back();
  const bool within_a_call = frames_.size() == 1 && outer.call >= 0;
  if (within_a_call && outer.direction == Direction::forward && op.traits.kind == OpKind::casts) {
    open({.op = &op, .inserted_for = outer.call});
  } else if (within_a_call && outer.direction == Direction::backward &&
             is_part_of(op, *calls_[static_cast<std::size_t>(outer.call)].op)) {
    open({.op = &op, .direction = Direction::backward, .part_of = outer.call});
  } else {
    frames_.push_back({});
  }
}

void Recorder::after_forward(const OpInfo& op, std::span<const Tensor> inputs,
                             std::span<const Tensor> outputs) {
  const std::int32_t index = frames_.back().call;
  if (index >= 0) calls_[static_cast<std::size_t>(index)].last = backend_.timestamp();
  if (const std::int64_t flop = 2 * op.traits.multiply_adds(inputs, outputs); flop > 0) {
    frames_.back().flop = flop;
    frames_.back().operands = inputs[0].dtype();
  }
  close();
  if (index < 0) return;
  Call& call = calls_[static_cast<std::size_t>(index)];
  call.bytes = forward_bytes(op, inputs, outputs);
  call.shapes = text_of(inputs, outputs);
  for (const Tensor& output : outputs) {
    if (!output.defined() || !output.requires_grad()) continue;
    shapes_of_[node_of(output)] = call.shapes;
    // In backward, products of fused ops are not separate ops; each has two gradients.
    if (op.traits.products && op.traits.kind != OpKind::product) fused_flop_[node_of(output)] = 2 * call.flop;
  }
}

// Saved tensors besides inputs and outputs are written as well: masks, statistics, positions.
std::int64_t Recorder::forward_bytes(const OpInfo& op, std::span<const Tensor> inputs,
                                     std::span<const Tensor> outputs) {
  const bool part = reads_part(op.traits);
  read_.clear();
  written_.clear();
  std::int64_t written = 0, read = 0;
  const auto is_view = [&](const Tensor& tensor) {
    return std::ranges::any_of(inputs, [&](const Tensor& input) { return input.shares_storage(tensor); });
  };
  const auto write = [&](const Tensor& tensor) {
    if (tensor.defined() && !is_view(tensor) && add(written_, tensor)) written += written_.back().bytes;
  };
  for (const Tensor& output : outputs) write(output);
  const auto recorded = std::ranges::find_if(outputs, [&](const Tensor& output) {
    return output.defined() && output.requires_grad() && &node_of(output)->info() == &op;
  });
  if (recorded != outputs.end()) {
    for (const Tensor& saved : node_of(*recorded)->saved()) write(saved);
  }
  if (written == 0) return 0;
  for (const Tensor& input : inputs) {
    if (add(read_, input)) read += part ? std::min(read_.back().bytes, written) : read_.back().bytes;
  }
  return read + written;
}

void Recorder::before_backward(const Node& node, std::span<const Tensor> dy) {
  if (!frames_.empty()) {
    frames_.push_back({});
    return;
  }
  gradients_.clear();
  for (const Tensor& gradient : dy) add(gradients_, gradient);
  read_.clear();
  saved_bytes_ = 0;
  for (const Tensor& saved : node.saved()) {
    if (saved.defined() && !contains(gradients_, saved) && add(read_, saved))
      saved_bytes_ += read_.back().bytes;
  }
  const auto shapes = shapes_of_.find(&node);
  open({.op = &node.info(),
        .direction = Direction::backward,
        .shapes = shapes == shapes_of_.end() ? 0 : shapes->second});
}

void Recorder::after_backward(const Node& node, std::span<const Tensor> dx) {
  if (const auto fused = fused_flop_.find(&node); fused != fused_flop_.end() && frames_.back().flop == 0) {
    frames_.back().flop = fused->second;
    frames_.back().operands = node.saved().front().dtype();
  }
  const std::int32_t index = frames_.back().call;
  if (index >= 0) calls_[static_cast<std::size_t>(index)].last = backend_.timestamp();
  close();
  if (index < 0) return;
  const bool may_hand_on = hands_on(node.info().traits);
  std::int64_t moved = 0;
  written_.clear();
  for (const Tensor& gradient : dx) {
    if (!gradient.defined() || (may_hand_on && contains(gradients_, gradient))) continue;
    if (add(written_, gradient)) moved += written_.back().bytes;
  }
  if (moved > 0) {
    moved += saved_bytes_;
    for (const Piece& gradient : gradients_) moved += gradient.bytes;
  }
  calls_[static_cast<std::size_t>(index)].bytes = moved;
}

void Recorder::begin(train::Stage stage) {
  if (stage == train::Stage::update && frames_.empty())
    open({.direction = Direction::update, .bytes = update_bytes_});
  stages_.push_back({.stage = stage, .first = backend_.timestamp()});
}

void Recorder::end(train::Stage stage) {
  if (stages_.empty() || !stages_.back().open || stages_.back().stage != stage) return;
  stages_.back().last = backend_.timestamp();
  stages_.back().open = false;
  if (stage != train::Stage::update || frames_.size() != 1) return;
  calls_[static_cast<std::size_t>(frames_.back().call)].last = stages_.back().last;
  close();
}

std::size_t Recorder::text_of(std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  std::string text;
  const auto append = [&](std::span<const Tensor> tensors) {
    for (const Tensor& tensor : tensors) {
      if (!tensor.defined()) continue;
      if (!text.empty()) text += ' ';
      text += to_string(tensor);
    }
  };
  append(inputs);
  text += " →";
  append(outputs);
  return index_of(text);
}

std::size_t Recorder::index_of(const std::string& text) {
  const auto [found, added] = text_index_.try_emplace(text, texts_.size());
  if (added) texts_.push_back(text);
  return found->second;
}

}  // namespace tandem::profile
