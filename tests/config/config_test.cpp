// Configurations: reading, bases, overrides and resolution.
#include <sys/stat.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "config/compose.h"
#include "config/describe.h"
#include "config/load.h"
#include "config/reader.h"
#include "core/kernels/update_rules.h"
#include "optim/registry.h"
#include "optim/sgd.h"
#include "tasks/classification/options.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_files.h"

using namespace tandem;
using namespace tandem::config;
using Catch::Contains;
using testing::TemporaryDirectory;
using testing::user_error_of;

namespace {

constexpr const char* kSmall = R"({
  "model": {"name": "mlp"},
  "data": {
    "name": "digits"
  }
})";

Value parsed(const std::string& text) {
  Origin origin;
  origin.layer = Layer::file;
  origin.source = std::make_shared<const std::string>("a.json");
  return parse(text, origin);
}

// Loads a file that holds `text`, under the name config.json.
std::string error_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const TemporaryDirectory directory;
  const std::string path = directory.write("config.json", text);
  std::string error = user_error_of([&] { load(path, overrides); });
  if (error.starts_with(directory.path().string()))
    error = error.substr(directory.path().string().size() + 1);
  return error;
}

Loaded loaded(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const TemporaryDirectory directory;
  return load(directory.write("config.json", text), overrides);
}

}  // namespace

TEST_CASE("lines of keys and values are kept", "[config]") {
  const Value root = parsed("{\n\"a\": 1\n,\n\"b\": [2,\n3\n], // words\n\"c\": {\"d\": true}}\n");
  CHECK(root.find("a")->origin.line == 2);
  CHECK(root.find("b")->origin.line == 4);
  CHECK(root.find("b")->items[0].origin.line == 4);
  CHECK(root.find("b")->items[1].origin.line == 5);
  CHECK(root.find("c")->find("d")->origin.line == 7);
  CHECK(root.find("b")->items[1].integer == 3);
}

TEST_CASE("invalid JSON is refused with its line", "[config]") {
  CHECK_THAT(user_error_of([] { parsed("{\n\"a\": 1,\n\"b\" 2}"); }), Contains("a.json:3: not valid JSON"));
  CHECK_THAT(user_error_of([] { parsed("{\"a\": 1\n"); }), Contains("a.json:1: not valid JSON"));
  CHECK_THAT(user_error_of([] { parsed(""); }), Contains("a.json:1: not valid JSON"));
  CHECK_THAT(user_error_of([] { parsed("{} {}"); }), Contains("not valid JSON"));
  CHECK_THAT(user_error_of([] { parsed("{\"a\": 1e999}"); }), Contains("a.json:1"));
  CHECK_THAT(user_error_of([] { parsed("{\"a\": 18446744073709551615}"); }), Contains("too large"));
  CHECK_THAT(user_error_of([] { parsed("{\"a\": 9223372036854775808}"); }), Contains("too large"));
  CHECK(parsed("{\"a\": 9223372036854775807}").find("a")->integer == INT64_MAX);
  CHECK_THAT(user_error_of([] { parsed("{\"a\": \"\xff\"}"); }), Contains("not valid JSON"));
  CHECK_THAT(user_error_of([] { parsed(std::string("{}\0{\"zq\": 1}", 11)); }), Contains("NUL"));
  CHECK_NOTHROW(parsed("{\"a\": /* one */ 1} // end"));
}

TEST_CASE("duplicate keys name both lines", "[config]") {
  CHECK(user_error_of([] { parsed("{\"x\": {\n\"a\": 1,\n\"b\": 2,\n\"a\": 3}}"); }) ==
        "a.json:4: x.a: duplicate key; first given on line 2");
}

TEST_CASE("depth and size have limits", "[config]") {
  const auto nested = [](int levels) {
    return "{\"a\": " + std::string(static_cast<std::size_t>(levels), '[') +
           std::string(static_cast<std::size_t>(levels), ']') + "}";
  };
  CHECK_NOTHROW(parsed(nested(63)));
  CHECK_THAT(user_error_of([&] { parsed(nested(64)); }), Contains("deeper than 64"));
  CHECK_THAT(user_error_of([&] { parsed(nested(100000)); }), Contains("deeper than 64"));
  CHECK_THAT(user_error_of([&] { parsed(std::string(kMaxBytes + 1, ' ')); }), Contains("16 MiB"));
  const TemporaryDirectory directory;
  const std::string large = directory.write("large.json", std::string(kMaxBytes + 1, ' '));
  CHECK_THAT(user_error_of([&] { load(large); }), Contains("16 MiB"));
  CHECK_THAT(user_error_of([&] { load(directory.path() / "none.json"); }), Contains("no such file"));
}

TEST_CASE("many keys and many mistakes take no time", "[config]") {
  std::string keys = "{\"k0\": 0";
  for (std::size_t i = 1; i < kMaxKeys; ++i) keys += fmt::format(", \"k{}\": 0", i);
  CHECK_NOTHROW(parsed(keys + "}"));
  CHECK_THAT(user_error_of([&] { parsed(keys + ", \"x\": 0}"); }), Contains("more than 1000 keys"));
  const TemporaryDirectory directory;
  CHECK(problems_of(directory.write("keys.json", keys + "}")).size() == kMaxProblems);
  std::string layers = R"({"model": {"layers": [{"zq": 1})";
  for (int i = 0; i < 100'000; ++i) layers += R"(, {"zq": 1})";
  CHECK(problems_of(directory.write("layers.json", layers + "]}}")).size() == kMaxProblems);
  const std::string long_key(1 << 20, 'k');
  CHECK_THAT(error_of("{\"" + long_key + "\": 1}"), Contains("unknown key; known here"));
}

TEST_CASE("a mistake that is made again and again is told once", "[config]") {
  const TemporaryDirectory directory;
  const auto lines = [&](const std::string& text) {
    return listed(problems_of(directory.write("config.json", text)));
  };
  std::string layers;
  for (int i = 0; i < 7; ++i)
    layers += std::string(i > 0 ? ",\n" : "") + R"({"type": "linear", "out_features": 3, "kernl": 3})";
  const auto one = lines(R"({"data": "digits", "model": {"layers": [)" + layers + "]}}");
  REQUIRE(one.size() == 1);
  CHECK_THAT(one.front(), Contains("config.json:1: model.layers.0.kernl: unknown key") &&
                              Contains("(6 similar: ") && Contains("config.json:2: model.layers.1.kernl, ") &&
                              Catch::EndsWith("model.layers.2.kernl, …)"));
  // Three mistakes, two of them in the same words.
  const auto three =
      lines(R"({"data": {"name": "digits", "batch_size": 0}, "model": "mlp", "accumulate": 0, "zq": 1})");
  REQUIRE(three.size() == 3);
  CHECK_THAT(three[0], Contains("data.batch_size: expected integer"));
  CHECK_THAT(three[1], Contains("accumulate: expected integer") && !Contains("similar"));
  std::string keys = R"({"data": "digits", "model": "mlp")";
  for (int i = 0; i < 500; ++i) keys += fmt::format(", \"zzq{}\": 0", i);
  const auto many = lines(keys + "}");
  REQUIRE(many.size() == 2);
  CHECK_THAT(many[0], Contains("zzq0: unknown key; known here") && Contains("(99 similar: "));
  CHECK_THAT(many[1], Contains("after 100 mistakes"));
}

TEST_CASE("layers beside a name say whose they are", "[config]") {
  for (const char* text : {R"({"model": {"name": "mlp", "layers": []}, "data": "digits"})",
                           R"({"model": {"name": "resnet20", "output": "a"}, "data": "digits"})"}) {
    INFO(text);
    CHECK_THAT(error_of(text),
               Contains("no key of \"") && Catch::EndsWith("it belongs to one without a name"));
  }
  CHECK_THAT(error_of(R"({"model": {"name": "mlp", "layers": []}, "data": "digits"})"),
             Contains("config.json:1: model.layers: no key of \"mlp\"; it belongs to one without a name"));
  CHECK_THAT(error_of(R"({"model": {"name": "mlp", "width": 3}, "data": "digits"})"),
             Contains("no key of \"mlp\"; it belongs to lenet5, resnet18"));
}

TEST_CASE("whole numbers are integers however they are written", "[config]") {
  const Loaded one = loaded(
      kSmall, {"model.num_classes=1e1", "model.hidden=[8.0, 2e1]", "epochs=3.0", "data.batch_size=1e2"});
  CHECK(one.config.task.value("model") ==
        loaded(kSmall, {"model.num_classes=10", "model.hidden=[8, 20]"}).config.task.value("model"));
  CHECK(one.config.epochs == 3);
  CHECK(one.config.data.batch_size == 100);
  CHECK_THAT(error_of(kSmall, {"model.num_classes=1.5"}), Contains("model.num_classes: expected integer"));
  CHECK_THAT(error_of(kSmall, {"epochs=1e300"}), Contains("epochs: expected integer"));
}

TEST_CASE("a configuration or base that is no file is named", "[config]") {
  const TemporaryDirectory directory;
  const auto fifo = directory.path() / "fifo.json";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  std::filesystem::create_symlink("loop.json", directory.path() / "loop.json");
  const auto error = [](const std::string& path) { return user_error_of([&] { load(path); }); };
  CHECK(error(fifo) == fmt::format("[{}] is a FIFO, not a regular file", fifo.string()));
  CHECK(error("/dev/zero") == "[/dev/zero] is a device, not a regular file");
  CHECK(error(directory.path()) ==
        fmt::format("[{}] is a folder, not a regular file", directory.path().string()));
  CHECK_THAT(error(directory.path() / "loop.json"), Contains("loop.json] is a loop of symbolic links"));
  CHECK_THAT(error("/proc/self/status"), Contains("[/proc/self/status] is generated by the kernel"));
  for (const char* base : {"fifo.json", "/proc/self/status", "/dev/full", "loop.json", "."}) {
    INFO(base);
    const auto path = directory.write("based.json", fmt::format("{{\"base\": \"{}\"}}", base));
    CHECK_THAT(error(path), Contains("based.json:1: base: ["));
    CHECK_THAT(error(path), Contains("is a FIFO") || Contains("is generated by the kernel") ||
                                Contains("is a device") || Contains("is a loop") || Contains("is a folder"));
  }
  std::filesystem::create_directory(directory.path() / "run");
  REQUIRE(::mkfifo((directory.path() / "run/config.json").c_str(), 0600) == 0);
  CHECK_THAT(error(directory.path() / "run"), Contains("run/config.json] is a FIFO"));
}

TEST_CASE("the keys of an arm are checked", "[config]") {
  const auto with = [](const std::string& arm) {
    return error_of(kSmall, {"compare.arms=[\"fp32\", " + arm + "]"});
  };
  CHECK(with(R"({"name": "a", "precision": "amp_fp16", "scaler": {"static": 64}})").empty());
  CHECK_THAT(with(R"({"name": "a", "scalar": "none"})"),
             Contains("compare.arms.1.scalar: unknown key; did you mean scaler?"));
  CHECK_THAT(with(R"({"precision": {"dtypes": "fp16"}})"),
             Contains("compare.arms.1.precision.dtypes: unknown key"));
}

TEST_CASE("an override is UTF-8", "[config]") {
  CHECK_THAT(error_of(kSmall, {"name=\xff"}), Contains("not valid UTF-8"));
  CHECK_THAT(error_of(kSmall, {"precision.layers.\xff=fp32"}), Contains("not valid UTF-8"));
  CHECK(loaded(kSmall, {"name=größer"}).config.name == "größer");
}

TEST_CASE("an unknown key is named with line, place and the nearest one", "[config]") {
  CHECK(
      error_of("{\n \"model\": \"mlp\",\n \"data\": {\"name\": \"digits\",\n  \"batchsize\": 3}}") ==
      "config.json:4: data.batchsize: unknown key; did you mean data.batch_size? (integer in [1, 1048576])");
  CHECK_THAT(error_of(R"({"model": "mlp", "data": "digits", "batch_size": 3})"),
             Contains("config.json:1: batch_size: unknown key; did you mean data.batch_size?"));
  CHECK_THAT(error_of(R"({"model": "mlp", "data": "digits", "zzzzzzzz": 3})"),
             Contains("unknown key; known here: name, task"));
  CHECK_THAT(error_of(kSmall, {"optimizer.momentom=0.9"}),
             Contains("command line: optimizer.momentom: unknown key; did you mean optimizer.momentum?"));
  CHECK_THAT(error_of(R"({"model": {"name": "mlp", "hiden": [3]}, "data": "digits"})"),
             Contains("model.hiden: unknown key; did you mean model.hidden?"));
}

TEST_CASE("types, ranges, choices and missing keys", "[config]") {
  CHECK(error_of(R"({"model": "mlp", "data": "digits", "epochs": "ten"})") ==
        "config.json:1: epochs: expected integer in [0, 1000000], got \"ten\"");
  CHECK_THAT(error_of(R"({"model": "mlp", "data": "digits", "epochs": 1.5})"), Contains("expected integer"));
  CHECK_THAT(error_of(R"({"model": "mlp", "data": "digits", "epochs": -1})"), Contains("expected integer"));
  CHECK_THAT(error_of(R"({"model": "mlp", "data": "digits", "optimizer": {"momentum": 1.0}})"),
             Contains("expected number in [0, 1), or \"auto\", got 1.0"));
  CHECK_THAT(error_of(R"({"model": "mlp", "data": "digits", "clip_norm": 0})"),
             Contains("clip_norm: expected number in (0, 1e+30]"));
  CHECK(loaded(R"({"model": "mlp", "data": "digits", "clip_norm": 1e-300})").config.clip_norm == 1e-300);
  CHECK_THAT(error_of(R"({"model": "mlp", "data": "digits", "optimizer": "adm"})"),
             Contains("did you mean \"adam\"?"));
  CHECK_THAT(error_of(R"({"model": "mlp", "data": "digits", "precision": "amp_fp61"})"),
             Contains("did you mean \"amp_fp16\"?"));
  CHECK_THAT(error_of(R"({"data": "digits"})"), Contains("model: required"));
  CHECK_THAT(error_of(R"({"model": "mlp", "data": {"batch_size": 3}})"), Contains("data.name: required"));
  CHECK_THAT(error_of(R"({"model": {}, "data": "digits"})"), Contains("model: needs a name"));
  CHECK_THAT(error_of(R"([1])"), Contains("expected an object"));
  CHECK_THAT(error_of(R"({"model": "mlp", "data": "digits", "optimizer": {"groups": [{"match": "("}]}})"),
             Contains("optimizer.groups.0.match: \"(\" is not a regular expression"));
  CHECK_THAT(
      error_of(R"({"model": "mlp", "data": {"name": "digits", "augment": [{"name": "cutout", "sise": 3}]}})"),
      Contains("data.augment.0.sise: unknown key; did you mean data.augment.0.size?"));
}

TEST_CASE("a key of another variant is an error unless a lower layer gave it", "[config]") {
  const std::string sgd =
      R"({"model": "mlp", "data": "digits", "optimizer": {"name": "sgd", "momentum": 0.9, "lr": 0.5}})";
  CHECK_THAT(
      error_of(R"({"model": "mlp", "data": "digits", "optimizer": {"name": "adam", "momentum": 0.9}})"),
      Contains("optimizer.momentum: no key of \"adam\""));
  const Loaded adam = loaded(sgd, {"optimizer.name=adam"});
  CHECK(adam.config.optimizer.name() == "adam");
  CHECK(optim::learning_rate(adam.config.optimizer) == 0.5);
  CHECK_THAT(error_of(sgd, {"optimizer.name=adam", "optimizer.momentum=0.5"}),
             Contains("no key of \"adam\""));
  // A base lies above its own base, and below what is based on it.
  const TemporaryDirectory directory;
  directory.write("lowest.json", sgd);
  directory.write("middle.json", R"({"base": "lowest.json", "optimizer": {"name": "adam", "beta1": 0.8}})");
  CHECK(load(directory.write("top.json", R"({"base": "middle.json"})")).config.optimizer.name() == "adam");
  CHECK_THAT(
      user_error_of([&] {
        load(directory.write("wrong.json", R"({"base": "middle.json", "optimizer": {"momentum": 0.5}})"));
      }),
      Contains("no key of \"adam\""));
  directory.write("above.json", R"({"base": "middle.json", "optimizer": {"momentum": 0.5}})");
  CHECK_THAT(user_error_of([&] { load(directory.write("higher.json", R"({"base": "above.json"})")); }),
             Contains("no key of \"adam\""));
}

TEST_CASE("milestones ascend", "[config]") {
  const auto error = [](const char* milestones) {
    return error_of(fmt::format(R"({{"model": "mlp", "data": "digits",
        "schedule": {{"name": "multi_step", "milestones": {}}}}})",
                                milestones));
  };
  for (const char* wrong : {"[20, 10]", "[10, 30, 20]", "[20, 10, 30]"})
    CHECK_THAT(error(wrong), Contains("schedule.milestones: expected increasing values"));
  CHECK_THAT(error("[]"), Contains("required by multi_step"));
}

TEST_CASE("absent keys have the library's defaults", "[config]") {
  for (const auto& entry : optim::optimizers().entries()) {
    CAPTURE(entry.name);
    const auto made = optim::make_optimizer(entry.name, {Parameter(Tensor::zeros({2, 2}))});
    const auto given =
        loaded(R"({"model": "mlp", "data": "digits", "optimizer": ")" + entry.name + "\"}").config.optimizer;
    CHECK(optim::learning_rate(given) == made->default_lr());
    CHECK(given.value("weight_decay").number == made->entries()[0].weight_decay);
    const Record library = entry.schema.make();
    for (const Key& key : entry.schema.keys) {
      CAPTURE(key.name);
      CHECK(given.value(key.name) == key.load(library.data()));
      CHECK(given.value(key.name) == key.default_value);
    }
    if (!made->rule()) continue;
    made->rule()->visit([&](const auto& rule) {
      const auto same = [&](const char* key, double value) { CHECK(given.value(key).number == value); };
      if constexpr (requires { rule.eps; }) same("eps", rule.eps);
      if constexpr (requires { rule.momentum; }) same("momentum", rule.momentum);
      if constexpr (requires { rule.beta1; }) same("beta1", rule.beta1);
      if constexpr (requires { rule.beta2; }) same("beta2", rule.beta2);
      if constexpr (requires { rule.alpha; }) same("alpha", rule.alpha);
      if constexpr (requires { rule.lr_decay; }) same("lr_decay", rule.lr_decay);
      if constexpr (requires { rule.trust_coefficient; }) same("trust_coefficient", rule.trust_coefficient);
    });
  }
}

TEST_CASE("overrides set, append and remove", "[config]") {
  const std::string text =
      R"({"model": {"name": "mlp", "hidden": [64, 32]}, "data": {"name": "digits", "batch_size": 16}})";
  const Loaded result = loaded(
      text, {"data.batch_size=8", "model.hidden.1=7", "+model.hidden=5", "+data.augment=horizontal_flip",
             "optimizer.groups=[{\"match\": \"bias\", \"weight_decay\": 0}]", "name=3 words", "clip_norm=2"});
  CHECK(result.config.data.batch_size == 8);
  CHECK(result.config.task.value("model.hidden") == Value(std::vector{64, 7, 5}));
  CHECK(place_of(result.given, "model.hidden") == "command line");
  CHECK(place_of(result.given, "model.hidden[0]").ends_with("config.json:1"));
  CHECK(result.config.task.as<tasks::ClassificationOptions>().data.augment.at(0).name == "horizontal_flip");
  CHECK(result.config.optimizer.as<optim::SgdOptions>().groups.at(0).weight_decay == 0.0);
  CHECK(result.config.name == "3 words");
  CHECK(result.config.clip_norm == 2.0);
  CHECK(loaded(text, {"~data.batch_size"}).config.data.batch_size == datasets::LoadingOptions{}.batch_size);
  CHECK(loaded(text, {"~model.hidden.0"}).config.task.value("model.hidden") == Value(std::vector{32}));
  CHECK(loaded(text, {"optimizer=adam"}).config.optimizer.name() == "adam");

  CHECK_THAT(error_of(text, {"model.hidden.2=1"}), Contains("model.hidden has 2 items; there is no item 2"));
  CHECK_THAT(error_of(text, {"model.hidden.x=1"}), Contains("is not an index"));
  CHECK_THAT(error_of(text, {"~data.workers"}), Contains("there is no data.workers to remove"));
  CHECK_THAT(error_of(text, {"data.batch_size.x=1"}),
             Contains("data.batch_size is 16, which has no key \"x\""));
  CHECK_THAT(error_of(text, {"nonsense"}), Contains("an override is path.to.key=value"));
  CHECK_THAT(error_of(text, {"=3"}), Contains("an override is"));
  CHECK_THAT(error_of(text, {"data..x=3"}), Contains("an override is"));
  CHECK_THAT(error_of(text, {"+data.batch_size=3"}), Contains("not a list"));
  CHECK_THAT(error_of(text, {"data={\"name\": }"}), Contains("command line: not valid JSON"));
  CHECK_THAT(error_of(text, {"data={\"name\": 1, \"name\": 2}"}), Contains("duplicate key"));
}

TEST_CASE("bases lie below, cycles are found", "[config]") {
  const TemporaryDirectory directory;
  directory.write("ground.json",
                  R"({"model": {"name": "mlp", "hidden": [9]}, "data": "digits", "epochs": 3, "seed": 4})");
  directory.write(
      "middle/middle.json",
      R"({"base": "../ground.json", "epochs": 5, "optimizer": {"name": "sgd", "momentum": 0.5}})");
  const std::string top = directory.write("top.json",
                                          "{\"base\": \"middle/middle.json\",\n\"model\": {\"hidden\": [1]}, "
                                          "\"optimizer\": {\"name\": \"adam\"}}");
  const Loaded result = load(top);
  CHECK(result.config.epochs == 5);
  CHECK(result.config.seed == 4);
  CHECK(result.config.task.value("model.hidden") == Value(std::vector{1}));
  CHECK(result.config.optimizer.name() == "adam");
  CHECK_THAT(with_origins(result), Contains("top.json:2"));
  CHECK_THAT(with_origins(result), Contains("ground.json:1"));

  const std::string a = directory.write("a.json", R"({"base": "b.json"})");
  directory.write("b.json", R"({"base": "a.json"})");
  CHECK_THAT(user_error_of([&] { load(a); }), Contains("a cycle"));
  const std::string lost = directory.write("lost.json", R"({"base": "nowhere.json"})");
  CHECK_THAT(user_error_of([&] { load(lost); }), Contains("lost.json:1: base: nowhere.json: no such file"));
  const std::string shipped = directory.write("shipped.json", R"({"base": "digits_mlp", "epochs": 1})");
  CHECK(load(shipped).config.task.value("data.name").text == "digits");
  const std::string wrong = directory.write("wrong.json", R"({"base": 3})");
  CHECK_THAT(user_error_of([&] { load(wrong); }), Contains("expected a path"));
}

TEST_CASE("a resolved configuration resolves to itself", "[config]") {
  const TemporaryDirectory directory;
  for (const auto& file : testing::shipped_files()) {
    INFO(file.string());
    const Loaded first = load(file.string());
    const Json json = resolved(first.config);
    const Loaded second = load(directory.write("resolved.json", json.dump(2)));
    CHECK(resolved(second.config) == json);
  }
}

TEST_CASE("show tells the origin of every value", "[config]") {
  const Loaded result = loaded(kSmall, {"epochs=2"});
  const std::string text = with_origins(result);
  CHECK_THAT(text, Contains("epochs = 2"));
  CHECK_THAT(text, Contains("command line"));
  CHECK_THAT(text, Contains("config.json:4"));
  CHECK_THAT(text, Contains("default"));
  CHECK(place_of(result.given, "data.name").ends_with("config.json:4"));
}

TEST_CASE("precision is parsed in all its forms", "[config]") {
  const auto precision = [](const std::string& json) {
    return loaded(R"({"model": "mlp", "data": "digits", "precision": )" + json + "}").config.precision;
  };
  CHECK(precision("\"fp32\"").is_fp32());
  CHECK(precision("\"amp_fp16\"").label() == "amp_fp16");
  const PrecisionConfig given =
      precision(R"({"level": "O2", "dtype": "fp16", "scaler": {"static": 64}, "diagnose": 1,
      "wgrad": "lower", "lists": {"deny": ["softmax"]}, "layers": {"layer1\\..*": "fp32"}})");
  CHECK(given.level == "O2");
  CHECK(given.scaler.static_scale == 64.0);
  CHECK(given.lists.deny == std::vector<std::string>{"softmax"});
  CHECK(given.layers.at(0).second.forward == "fp32");
  CHECK(precision(R"({"scaler": "none", "level": "O1"})").scaler.mode == "none");
  // Whoever names a 16-bit type, or anything else of mixed precision, means it.
  CHECK(precision(R"({"dtype": "fp16"})").label() == "amp_fp16");
  CHECK(precision("{}").label() == "amp_bf16");
  CHECK(loaded(R"({"model": "mlp", "data": "digits"})").config.precision.label() == "fp32");
  CHECK_THAT(error_of(R"({"model": "mlp", "data": "digits", "precision": {"level": "O9"}})"),
             Contains("one of O0, O1, O2, O3"));
}

TEST_CASE("contradictions in a precision name the key", "[config]") {
  const auto mistake = [](const std::string& precision) {
    return error_of("{\"model\": \"mlp\", \"data\": \"digits\",\n\"precision\": {\"level\": \"O1\",\n" +
                    precision + "}}");
  };
  CHECK_THAT(mistake(R"("lists": {"deny": ["sofmax"]})"),
             Contains("config.json:3: precision.lists.deny: there is no op \"sofmax\"; did you mean"));
  CHECK_THAT(mistake(R"("lists": {"allow": ["softmax"],
                                  "deny": ["softmax"]})"),
             Contains("config.json:3: precision.lists: \"softmax\" is listed twice"));
  CHECK_THAT(mistake(R"("dtype": "fp16",
                        "scaler": {"mode": "none", "interval": 5})"),
             Contains("config.json:4: precision.scaler: no scaler contradicts the other keys of the scaler"));
  CHECK_THAT(mistake(R"("cast": "none")"),
             Contains("config.json:2: precision: cast none with level O1: nothing would run in 16 bits"));
}

TEST_CASE("a key can be set inside of an object that a word stands for", "[config]") {
  const auto with = [](const std::vector<std::string>& overrides) {
    return loaded(R"({"model": "mlp", "data": "digits", "precision": "amp_bf16"})", overrides).config;
  };
  const PrecisionConfig precision =
      with({"precision=amp_fp16", "precision.scaler.initial=1024", "precision.diagnose=0"}).precision;
  CHECK(precision.level == "O1");
  CHECK(precision.dtype == "fp16");
  CHECK(precision.scaler.initial == 1024.0);
  CHECK(precision.diagnose == 0);
  CHECK(with({"precision.layers.fc=fp32"}).precision.dtype == "bf16");
  CHECK(optim::learning_rate(with({"optimizer=adam", "optimizer.lr=0.5"}).optimizer) == 0.5);
  CHECK(loaded(R"({"model": "mlp", "data": "digits"})", {"precision.dtype=fp16"}).config.precision.label() ==
        "amp_fp16");
}

TEST_CASE("a number may stand for an object as a word may", "[config]") {
  const auto vocabulary = [](const std::vector<std::string>& overrides) {
    return resolved(load("debian_lstm", overrides).config)["data"]["vocabulary"].dump();
  };
  CHECK(vocabulary({"data.vocabulary=1000"}) == R"({"size":1000,"min_count":1})");
  CHECK(vocabulary({"data.vocabulary=1000", "data.vocabulary.min_count=2"}) ==
        R"({"size":1000,"min_count":2})");
  CHECK_THAT(user_error_of([&] { vocabulary({"data.vocabulary=-1"}); }),
             Contains("data.vocabulary") && Contains("-1"));
  CHECK_THAT(user_error_of([&] { vocabulary({"data.vocabulary=many"}); }),
             Contains("expected object, or its size alone (integer in [0, 16777216]), got \"many\""));
  CHECK_THAT(user_error_of([&] { vocabulary({"data.vocabulary=1.5"}); }), Contains("its size alone"));
}

TEST_CASE("the committed page of keys is current", "[config]") {
  CHECK(testing::read_text(tandem::test::source_path("docs/configuration.md")) ==
        keys_as_markdown(Config::schema()));
}
