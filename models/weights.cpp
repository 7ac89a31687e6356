#include "models/weights.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "autograd/modes.h"
#include "autograd/observers.h"
#include "autograd/ops/shape.h"
#include "core/backend.h"
#include "core/error.h"
#include "core/names.h"
#include "models/foreign_names.h"

namespace tandem::models {

namespace {

// Axis i of the file is axis order[i] here; empty: the same.
std::vector<int> file_order(ParameterLayout layout) {
  switch (layout) {
    case ParameterLayout::plain:
      return {};
    case ParameterLayout::filter:
    case ParameterLayout::transposed_filter:
      return {0, 3, 1, 2};
    case ParameterLayout::filter1d:
      return {0, 2, 1};
  }
  return {};
}

Tensor permuted(const Tensor& value, const std::vector<int>& order) {
  const NoGrad no_grad;
  const PrecisionScope no_policy(nullptr);
  return permute(value.detach(), order);
}

// Destination of a tensor in the file.
struct Target {
  std::string name;
  Tensor value;  // in the layout of the module
  Tensor next;   // of a statistic
  ParameterLayout layout = ParameterLayout::plain;
  std::optional<nn::Counter> counter{};
  const Leaf* parameter = nullptr;
  const RowMap* rows = nullptr;  // for a table loaded by word

  Shape shape() const { return counter ? Shape{} : file_shape(value.shape(), layout); }
};

std::vector<Target> targets_of(nn::Module& module, const RowMaps& rows) {
  std::vector<Target> targets;
  for (const auto& [path, parameter] : module.parameter_paths())
    targets.push_back({.name = path,
                       .value = parameter.value(),
                       .next = {},
                       .layout = parameter.layout(),
                       .parameter = &parameter.leaf()});
  for (const nn::Statistic& statistic : module.statistics())
    targets.push_back({.name = statistic.name, .value = statistic.live, .next = statistic.next});
  for (const nn::Counter& counter : module.counters())
    targets.push_back({.name = counter.name, .value = {}, .next = {}, .counter = counter});
  for (Target& target : targets)
    if (const auto found = rows.find(target.name); found != rows.end()) target.rows = &found->second;
  return targets;
}

bool same_extents(const Shape& shape, const std::vector<std::uint64_t>& extents) {
  return std::ranges::equal(shape.extents(), extents,
                            [](Index a, std::uint64_t b) { return static_cast<std::uint64_t>(a) == b; });
}

bool fits(const Target& target, std::vector<std::uint64_t> extents) {
  if (target.rows && !extents.empty() && extents[0] == static_cast<std::uint64_t>(target.rows->in_file))
    extents[0] = target.rows->rows.size();
  return same_extents(target.shape(), extents);
}

std::string text_of(const std::vector<std::uint64_t>& extents) {
  return fmt::format("[{}]", fmt::join(extents, ","));
}

using tandem::listed;

std::string listed(const std::vector<Mismatch>& mismatches) {
  std::vector<std::string> texts;
  for (const Mismatch& each : mismatches)
    texts.push_back(fmt::format("{} is {}, here {}", each.name, each.found, each.expected));
  return listed(texts);
}

bool floating_in_file(const std::string& dtype) {
  return dtype == "F64" || dtype == "F32" || dtype == "F16" || dtype == "BF16";
}

Tensor as_type(const Tensor& host, DType dtype) {
  if (host.dtype() == dtype) return host;
  Tensor cast = Tensor::empty(host.shape(), {.dtype = dtype, .device = {}, .kind = MemoryKind::data});
  backend_for(Device{}).cast(host, cast);
  return cast;
}

void assign(const Tensor& host, const Tensor& target) {
  backend_for(target.device()).copy_bytes(as_type(host, target.dtype()), target);
  target.storage()->bump_version();
}

// The rows of `read` that the map names, and the others from `present`.
Tensor by_word(const Tensor& read, const RowMap& map, const Tensor& present) {
  const Tensor source = as_type(read, present.dtype());
  const Tensor table = Tensor::empty(present.shape(), {.dtype = present.dtype(), .kind = MemoryKind::data});
  backend_for(present.device()).copy_bytes(present, table);
  const std::size_t bytes = table.bytes() / map.rows.size();
  for (std::size_t i = 0; i < map.rows.size(); ++i) {
    if (map.rows[i] == RowMap::kNew) continue;
    std::memcpy(static_cast<std::byte*>(table.raw()) + i * bytes,
                static_cast<const std::byte*>(source.raw()) + static_cast<std::size_t>(map.rows[i]) * bytes,
                bytes);
  }
  return table;
}

void load_into(Target& target, const Tensor& read) {
  if (target.counter) {
    *target.counter->live = *target.counter->next = read.to_vector<std::int64_t>()[0];
    return;
  }
  const Tensor value =
      target.rows ? by_word(read, *target.rows, target.value) : from_file_layout(read, target.layout);
  assign(value, target.value);
  if (target.next.defined()) assign(value, target.next);
}

// A tensor of the file with a destination.
struct Source {
  const safetensors::Entry* entry = nullptr;
  ForeignTensor here;

  // In the module's layout.
  std::vector<std::uint64_t> extents() const {
    std::vector<std::uint64_t> extents = entry->extents;
    if (here.transposed && extents.size() == 2) std::swap(extents[0], extents[1]);
    return extents;
  }

  // Rows in the module's order. f32 or 16-bit, on the host.
  Tensor read(const safetensors::File& file) const {
    Tensor read = file.read(*entry);
    if (here.transposed) read = permuted(read, {1, 0});
    if (here.rows.empty()) return read;
    const Tensor ordered = Tensor::empty(read.shape(), read.options());
    const std::size_t bytes = entry->bytes / here.rows.size();
    for (std::size_t i = 0; i < here.rows.size(); ++i)
      std::memcpy(static_cast<std::byte*>(ordered.raw()) + i * bytes,
                  static_cast<const std::byte*>(read.raw()) + static_cast<std::size_t>(here.rows[i]) * bytes,
                  bytes);
    return ordered;
  }
};

// The tensors of the file for one target: one, or its parts in the order of their rows.
using Sources = std::vector<Source>;

bool is_divided(const Sources& sources) { return sources.front().here.first_row.has_value(); }

// One tensor of all rows.
Tensor read_all(const Sources& sources, const safetensors::File& file) {
  if (!is_divided(sources)) return sources.front().read(file);
  const NoGrad no_grad;
  const PrecisionScope no_policy(nullptr);
  TensorList parts;
  for (const Source& source : sources) parts.push_back(source.read(file));
  for (Tensor& part : parts) part = as_type(part, parts.front().dtype());
  return concat(parts, 0);
}

// In the module's layout, of the parts joined; those of a part that does not fit the first one.
std::vector<std::uint64_t> extents_of(const Sources& sources) {
  std::vector<std::uint64_t> extents = sources.front().extents();
  if (!is_divided(sources) || extents.empty()) return extents;
  for (const Source& part : std::span(sources).subspan(1)) {
    const std::vector<std::uint64_t> others = part.extents();
    if (others.size() != extents.size() || !std::equal(others.begin() + 1, others.end(), extents.begin() + 1))
      return others;
    extents[0] += others[0];
  }
  return extents;
}

// "attn.in_proj_weight (rows 64 to 127)": the first rows that no part of the file covers; empty: there are
// none.
std::optional<std::string> missing_rows(const Target& target, const Sources& parts) {
  if (!is_divided(parts) || target.value.rank() == 0) return std::nullopt;
  Index covered = 0;
  for (const Source& part : parts) {
    if (*part.here.first_row > covered)
      return fmt::format("{} (rows {} to {})", target.name, covered, *part.here.first_row - 1);
    covered = *part.here.first_row + static_cast<Index>(part.entry->extents.empty() ? 0 : part.extents()[0]);
  }
  if (covered >= target.value.size(0)) return std::nullopt;
  return fmt::format("{} (rows {} to {})", target.name, covered, target.value.size(0) - 1);
}

using NamedShapes = std::map<std::string, std::vector<std::uint64_t>>;

// By the module's names. Other tensors of the file are `unexpected`.
std::map<std::string, Sources> sources_in(const safetensors::File& file, const nn::Module& module,
                                          const std::set<std::string_view>& wanted,
                                          std::vector<std::string>& unexpected) {
  const auto* const reader = dynamic_cast<const ReadsForeignFiles*>(&module);
  const ForeignNames foreign = reader ? reader->foreign_names(file) : ForeignNames{};
  std::map<std::string, Sources> sources;
  for (const safetensors::Entry& entry : file.entries()) {
    std::optional<ForeignTensor> here = foreign ? foreign(entry) : ForeignTensor{entry.name};
    if (here && wanted.contains(here->name)) {
      sources[here->name].push_back({&entry, *here});
    } else if (!here || !here->name.empty()) {
      unexpected.push_back(entry.name);
    }
  }
  for (auto& [name, parts] : sources)
    std::ranges::sort(parts, {}, [](const Source& part) { return part.here.first_row; });
  return sources;
}

std::string without(std::string_view name, std::string_view prefix) {
  return std::string(name.substr(name.starts_with(prefix) ? prefix.size() : 0));
}

// Prefix of most names in `longer` whose rest is a name in `shorter` with the same shape; "" if none.
// Prefixes end in a dot.
std::string prefix_between(const NamedShapes& longer, const NamedShapes& shorter) {
  std::map<std::string, int> fits;
  for (const auto& [name, shape] : longer) {
    for (std::size_t dot = name.find('.'); dot != name.npos; dot = name.find('.', dot + 1)) {
      const auto rest = shorter.find(name.substr(dot + 1));
      if (rest != shorter.end() && rest->second == shape) ++fits[name.substr(0, dot + 1)];
    }
  }
  const auto most = std::ranges::max_element(fits, {}, [](const auto& each) { return each.second; });
  return most == fits.end() ? "" : most->first;
}

// For a file without any matching name.
void take_prefixed(const safetensors::File& file, const std::vector<Target>& targets,
                   std::map<std::string, Sources>& sources, LoadReport& report) {
  NamedShapes theirs, ours;
  for (const safetensors::Entry& entry : file.entries()) theirs[entry.name] = entry.extents;
  for (const Target& target : targets) {
    const Shape shape = target.shape();
    if (shape.rank() > 0) ours[target.name] = {shape.begin(), shape.end()};
  }
  report.file_prefix = prefix_between(theirs, ours);
  if (report.file_prefix.empty()) report.module_prefix = prefix_between(ours, theirs);
  if (report.file_prefix.empty() && report.module_prefix.empty()) return;
  std::set<std::string_view> wanted;
  for (const Target& target : targets) wanted.insert(target.name);
  sources.clear();
  report.unexpected.clear();
  for (const safetensors::Entry& entry : file.entries()) {
    const std::string name = report.module_prefix + without(entry.name, report.file_prefix);
    const bool prefixed = entry.name.starts_with(report.file_prefix);
    if (prefixed && wanted.contains(name)) {
      sources[name] = {{&entry, {name}}};
    } else {
      report.unexpected.push_back(entry.name);
    }
  }
}

bool any_fits(const std::vector<Target>& targets, const std::map<std::string, Sources>& sources) {
  return std::ranges::any_of(targets, [&](const Target& target) {
    const auto found = sources.find(target.name);
    return found != sources.end() && !target.counter && fits(target, extents_of(found->second));
  });
}

void require_type(const Target& target, const Sources& sources, const safetensors::File& file) {
  for (const Source& source : sources) {
    const safetensors::Entry& entry = *source.entry;
    const bool right_type =
        target.counter ? entry.dtype == "I64" || entry.dtype == "I32" : floating_in_file(entry.dtype);
    require(right_type, file.path(), "tensor \"{}\" has dtype {}, expected {}", entry.name, entry.dtype,
            target.counter ? "an integer" : "a floating type");
  }
}

// Whether two tensors of the file have the same values.
bool equal_values(const Sources& a, const Sources& b, const safetensors::File& file) {
  if (extents_of(a) != extents_of(b)) return false;
  const Tensor x = as_type(read_all(a, file), DType::f32), y = as_type(read_all(b, file), DType::f32);
  return std::memcmp(x.raw(), y.raw(), x.bytes()) == 0;
}

// Tensors of the file for a parameter that has its values from the tensors `used`.
void report_if_different(const std::string& name, const Sources& used, const Sources& others,
                         const safetensors::File& file, LoadReport& report) {
  if (equal_values(used, others, file)) return;
  report.unexpected.push_back(fmt::format("{} (its values differ from {}, the same parameter of the model)",
                                          name, used.front().entry->name));
}

// Assignment of file entries to targets. A shared parameter has several names; the first one in the file is
// used, and the others must have its values.
struct NameMatches {
  std::vector<std::pair<std::size_t, Sources>> loads;  // index of the target
  LoadReport report;
};

NameMatches match_names(const nn::Module& module, const std::vector<Target>& targets,
                        const safetensors::File& file) {
  NameMatches matches;
  LoadReport& report = matches.report;
  std::set<std::string_view> names;
  for (const Target& target : targets) names.insert(target.name);
  std::map<const Leaf*, std::string> served;  // the name in use
  std::map<std::string, Sources> sources = sources_in(file, module, names, report.unexpected);
  if (!any_fits(targets, sources)) take_prefixed(file, targets, sources, report);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const Target& target = targets[i];
    const auto found = sources.find(target.name);
    if (found == sources.end()) continue;
    require_type(target, found->second, file);
    if (const auto other = served.find(target.parameter); target.parameter && other != served.end()) {
      report_if_different(target.name, sources.at(other->second), found->second, file, report);
      continue;
    }
    if (!is_divided(found->second))
      for (const Source& twin : std::span(found->second).subspan(1))
        report_if_different(twin.entry->name, {found->second.front()}, {twin}, file, report);
    if (target.parameter) served.emplace(target.parameter, target.name);
    if (const std::optional<std::string> rows = missing_rows(target, found->second)) {
      report.missing.push_back(*rows);
    } else if (const auto extents = extents_of(found->second); fits(target, extents)) {
      matches.loads.emplace_back(i, found->second);
      report.loaded.push_back(target.name);
    } else {
      report.mismatched.push_back({target.name, to_string(target.shape()), text_of(extents)});
    }
  }
  std::set<const Leaf*> reported;
  for (const Target& target : targets) {
    if (sources.contains(target.name) || target.counter) continue;
    if (target.parameter && (served.contains(target.parameter) || !reported.insert(target.parameter).second))
      continue;
    report.missing.push_back(target.name);
  }
  return matches;
}

}  // namespace

Shape file_shape(const Shape& shape, ParameterLayout layout) {
  const std::vector<int> order = file_order(layout);
  if (order.empty()) return shape;
  std::vector<Index> extents;
  for (int axis : order) extents.push_back(shape[axis]);
  return Shape(std::span<const Index>(extents));
}

Tensor to_file_layout(const Tensor& value, ParameterLayout layout) {
  const std::vector<int> order = file_order(layout);
  return order.empty() ? value.detach() : permuted(value, order);
}

Tensor from_file_layout(const Tensor& value, ParameterLayout layout) {
  const std::vector<int> order = file_order(layout);
  if (order.empty()) return value.detach();
  std::vector<int> inverse(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    inverse[static_cast<std::size_t>(order[i])] = static_cast<int>(i);
  return permuted(value, inverse);
}

std::vector<safetensors::NamedTensor> weights_of(nn::Module& module) {
  std::vector<safetensors::NamedTensor> weights;
  for (const Parameter& parameter : module.parameters())
    weights.emplace_back(parameter.name(), to_file_layout(parameter.value(), parameter.layout()));
  for (const nn::Statistic& statistic : module.statistics())
    weights.emplace_back(statistic.name, statistic.live);
  for (const nn::Counter& counter : module.counters())
    weights.emplace_back(counter.name, Tensor::from(std::vector<std::int64_t>{*counter.live}, Shape{}));
  return weights;
}

void save_weights(nn::Module& module, const std::string& path, const safetensors::Metadata& metadata) {
  safetensors::write(path, weights_of(module), metadata);
}

std::string LoadReport::text() const {
  const std::string rest = differences();
  const std::string prefix =
      !file_prefix.empty()     ? fmt::format(", without the \"{}\" before their names", file_prefix)
      : !module_prefix.empty() ? fmt::format(", with \"{}\" before their names", module_prefix)
                               : "";
  return fmt::format("{} tensors loaded{}{}{}", loaded.size(), prefix, rest.empty() ? "" : "; ", rest);
}

std::string LoadReport::differences() const {
  std::vector<std::string> parts;
  if (!missing.empty()) parts.push_back("missing: " + listed(missing));
  if (!unexpected.empty()) parts.push_back("unexpected: " + listed(unexpected));
  if (!mismatched.empty()) parts.push_back("of another shape: " + listed(mismatched));
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::optional<std::string> non_finite_weights(nn::Module& module) {
  for (const Target& target : targets_of(module, {})) {
    if (target.counter) continue;
    const std::vector<float> values = target.value.to_vector<float>();
    const auto bad = std::ranges::find_if_not(values, [](float value) { return std::isfinite(value); });
    if (bad == values.end()) continue;
    return fmt::format("{} holds {} at element {}", target.name,
                       std::isnan(*bad) ? "nan" : fmt::format("{}", *bad), bad - values.begin());
  }
  return {};
}

LoadReport compare_weights(nn::Module& module, const safetensors::File& file, const RowMaps& rows) {
  return match_names(module, targets_of(module, rows), file).report;
}

LoadReport load_weights(nn::Module& module, const safetensors::File& file, const LoadOptions& options) {
  std::vector<Target> targets = targets_of(module, options.rows);
  NameMatches matches = match_names(module, targets, file);
  const LoadReport& report = matches.report;
  if (!report.mismatched.empty() && !options.skip_mismatched)
    throw UserError(
        file.path(),
        fmt::format("tensors of another shape: {}; LoadOptions::skip_mismatched leaves them as they are",
                    listed(report.mismatched)));
  if (options.strict && (!report.missing.empty() || !report.unexpected.empty())) {
    throw UserError(
        file.path(),
        fmt::format(
            "does not hold exactly the model's weights: {}{}; LoadOptions::strict = false loads the rest",
            report.missing.empty() ? "" : "missing " + listed(report.missing),
            report.unexpected.empty()
                ? ""
                : (report.missing.empty() ? "unexpected " : "; unexpected ") + listed(report.unexpected)));
  }
  // Reads everything before changing anything: a truncated file leaves the module unchanged.
  TensorList tensors;
  for (const auto& [target, sources] : matches.loads) tensors.push_back(read_all(sources, file));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    load_into(targets[matches.loads[i].first], tensors[i]);
    tensors[i] = {};
  }
  return std::move(matches.report);
}

LoadReport load_weights(nn::Module& module, const std::string& path, const LoadOptions& options) {
  return load_weights(module, safetensors::File(path), options);
}

}  // namespace tandem::models
