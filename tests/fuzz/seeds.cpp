// fuzz_seeds FOLDER: writes small valid inputs of each kind to FOLDER/<target>, as seeds for the fuzzer.
#include <fmt/core.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "amp/plan/plan_file.h"
#include "amp/plan/rules.h"
#include "config/compose.h"
#include "config/load.h"
#include "core/error.h"
#include "data/text/codec.h"
#include "files/base64.h"
#include "files/safetensors.h"
#include "runs/checkpoints.h"
#include "tests/data/files.h"
#include "tests/fuzz/small_run.h"

using namespace tandem;
using namespace tandem::datasets::testing;

namespace {

Bytes bytes_of(std::string_view text) { return {text.begin(), text.end()}; }

Bytes behind(std::uint8_t first, Bytes bytes) {
  bytes.insert(bytes.begin(), first);
  return bytes;
}

void arrays(const fs::path& folder) {
  for (const std::uint8_t type : {0x08, 0x09, 0x0b, 0x0c, 0x0d, 0x0e}) {
    const std::size_t element = type < 0x0b ? 1 : type == 0x0b ? 2 : type == 0x0e ? 8 : 4;
    write_file(folder / "idx" / fmt::format("type-{:02x}", type),
               idx_bytes(type, {2, 3}, random_bytes(6 * element, type)));
  }
  write_gz(folder / "idx/gz", idx_bytes(0x08, {4, 5}, random_bytes(20, 1)));
  for (const int kind : {0, 1}) {
    Bytes record = random_bytes(static_cast<std::size_t>(3073 + kind), 2);
    record[0] = record[1] = 5;
    write_file(folder / "cifar" / fmt::format("kind-{}", kind),
               behind(static_cast<std::uint8_t>(kind), record));
  }
  int version = 0;
  for (const std::string descr : {"|u1", "|b1", "|i1", "<i2", ">u4", "<i8", "<f4", ">f4", "<f8"}) {
    const auto element = static_cast<std::size_t>(descr[2] - '0');
    write_file(folder / "npy" / fmt::format("{}-{}", descr.substr(1), descr[0] == '>'),
               npy_bytes(npy_header(descr, version % 2 == 0, "(2, 3)"), random_bytes(6 * element, 3),
                         1 + version % 3));
    ++version;
  }
  write_zip(folder / "npy/zip", {{"x.npy", npy_bytes(npy_header("|u1", false, "(2, 3)"), random_bytes(6, 4))},
                                 {"y.npy", npy_bytes(npy_header("|u1", false, "(2,)"), {0, 1})}});
}

// The first byte is the form (tests/fuzz/boxes.cpp).
void boxes(const fs::path& folder) {
  const fs::path to = folder / "boxes";
  write_file(
      to / "voc",
      behind(0, bytes_of("<?xml version=\"1.0\"?><annotation><size><width>9</width><height>8</height></size>"
                         "<object><name>cat</name><difficult/><part><name>head</name></part><bndbox>"
                         "<xmin>1</xmin><ymin>2.5</ymin><xmax>9</xmax><ymax>1e1</ymax></bndbox></object>"
                         "</annotation>")));
  write_file(
      to / "coco",
      behind(1,
             bytes_of(R"({"annotations":[{"id":1,"image_id":2,"category_id":3,"bbox":[0,1.5,4,5],"area":7,)"
                      R"("iscrowd":1,"segmentation":{"counts":"321010","size":[3,4]}},{"id":2,"image_id":2,)"
                      R"("category_id":0,"bbox":[-1,1,4,500],"segmentation":[[1,2,3,4,5,6]]}],)"
                      R"("images":[{"id":2,"file_name":"a/b.jpg","width":9,"height":8}],)"
                      R"("categories":[{"id":3,"name":"cat"},{"id":0,"name":"emu"}]})")));
  write_file(to / "list", behind(2, bytes_of("000005  1\n000007 -1\n000009\n")));
}

void images(const fs::path& folder) {
  for (const int channels : {1, 3, 4}) {
    const Bytes pixels = random_bytes(static_cast<std::size_t>(8 * 8 * channels), 5);
    for (const bool progressive : {false, true})
      write_file(folder / "image" / fmt::format("jpeg-{}-{}", channels, progressive),
                 jpeg_bytes({8, 8, channels, 60, progressive}, pixels));
  }
  for (const int type : {0, 2, 3, 4, 6}) {
    const std::size_t channels = type == 2 ? 3 : type == 4 ? 2 : type == 6 ? 4 : 1;
    Bytes rows = random_bytes(5 * 4 * channels, 6);
    if (type == 3)
      for (auto& index : rows) index %= 4;
    write_file(folder / "image" / fmt::format("png-{}", type),
               png_bytes({.width = 5, .height = 4, .color_type = type, .interlaced = type % 3 == 0}, rows));
  }
}

void tensors(const fs::path& folder) {
  const fs::path to = folder / "safetensors";
  fs::create_directories(to);
  safetensors::write(to / "none", {}, {{"format", "pt"}});
  safetensors::write(to / "scalar", {{"x", Tensor::scalar(1.0)}});
  std::vector<safetensors::NamedTensor> all;
  for (const DType dtype :
       {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64, DType::i32, DType::u8, DType::boolean})
    all.emplace_back(std::string(name_of(dtype)), Tensor::zeros({2, 1}, {.dtype = dtype}));
  all.emplace_back("empty", Tensor::zeros({0, 3}));
  safetensors::write(to / "all", all);
}

// As older versions saved them: in one file, which is an input.
void states(const fs::path& folder) {
  const fs::path to = folder / "checkpoint";
  fs::create_directories(to);
  const runs::RunState state{.epoch = 2, .position = 4, .best = 0.5, .best_epoch = 1};
  fuzz::SmallRun run;
  for (const std::string name : {"fresh", "accumulating", "stepped"}) {
    if (name != "fresh") run.backward();
    if (run.step->ready()) run.step->apply();
    safetensors::write(to / name, run.step->state(),
                       {{"tandem.state", runs::to_json(state).dump()}, {"tandem.config", "{}"}});
  }
}

void configurations(const fs::path& folder) {
  for (const std::string& name : config::shipped_names()) {
    write_file(folder / "config" / name, read_bytes(config::find_config(name)));
    const std::string resolved = config::resolved(config::load(name).config).dump();
    write_file(folder / "config" / (name + "-resolved"), bytes_of(resolved));
  }
  int number = 0;
  for (const std::string lines :
       {"data.batch_size=16\nema={}\nclip_norm=1", "precision=amp_fp16\nprecision.scaler.static=64",
        "+data.augment=\"horizontal_flip\"\n+data.augment={\"name\":\"cutout\",\"size\":8}",
        "model={\"layers\":[{\"type\":\"flatten\"},{\"type\":\"linear\",\"out_features\":10}]}\nmodel.layers."
        "1.bias=false",
        "~schedule\noptimizer.name=adamw\noptimizer.groups=[{\"match\":\"bias\",\"weight_decay\":0}]",
        "precision.layers={\"fc.*\":\"fp32\"}\nprecision.level=O2\nprecision.dtype=bf16",
        "epochs=1e1\nseed=7\nname=\"x\""})
    write_file(folder / "overrides" / fmt::format("{}", number++), behind('\0', bytes_of(lines)));
}

// The first byte is the form, and the tokenizer (tests/fuzz/texts.cpp).
void texts(const fs::path& folder) {
  const fs::path to = folder / "texts";
  std::uint8_t first = 0;
  for (const char* tokenizer : {"words", "spaces", "characters"}) {
    write_file(
        to / fmt::format("plain-{}", tokenizer),
        behind(first, bytes_of("Cats chase mice. It's 3.2 times as far.\r\nDogs\n\nfl\xC3\xBCgge <unk>")));
    write_file(
        to / fmt::format("labelled-{}", tokenizer),
        behind(first + 1, bytes_of("music\tthe old choir\r\ncooking\tsalt. and more words than five\n")));
    first += 3;
  }
  write_file(to / "packages",
             behind(2, bytes_of("Package: a\nSource: b\nSection: games\nDescription-en: c\n d\n"
                                " .\n e\n\nPackage: f\nSource: b\nDescription-en: g\n h\n")));
}

void pairs_and_pieces(const fs::path& folder) {
  const fs::path to = folder / "pairs";
  write_file(to / "page", behind(0, bytes_of("<h1 id=\"h\">A &amp; &#228;</h1><p id=\"p\">x<br/>y</p>")));
  std::string words = "MNCL\n";
  for (int i = 0; i < 40; ++i) words += fmt::format("(\"w{}\" nil (((w er) 1) ((d) 0)))\n", i);
  write_file(to / "dictionary", behind(1, bytes_of(words)));
  write_file(to / "table", behind(2, bytes_of("a\tb\r\nc d\te\tf\n")));
  std::vector<std::string> lines;
  for (int i = 0; i < 30; ++i) lines.push_back(fmt::format("stalt {} prei fling{}", i % 7, i % 5));
  const std::vector<std::string_view> views(lines.begin(), lines.end());
  for (const char* kind : {"unigram", "bpe"}) {
    const auto codec = datasets::codecs().make(kind, {{"size", 22}}, {views, "seeds"});
    const auto model = files::from_base64(codec->description().at("model").get<std::string>(), "seeds");
    write_file(folder / "pieces" / kind, bytes_of(model));
  }
}

// The first byte is the kind (tests/fuzz/tokenizer.cpp).
void tokenizers(const fs::path& folder) {
  using Json = nlohmann::ordered_json;
  const std::string_view text = "stalt prei stalt preis flink";
  const fs::path to = folder / "tokenizer";
  const Json bytes =
      datasets::codecs().make("byte_bpe", {{"size", 264}}, {std::span(&text, 1), "seeds"})->description();
  const Json words =
      datasets::codecs().make("wordpiece", {{"size", 24}}, {std::span(&text, 1), "seeds"})->description();
  Json vocab;
  std::string merges, pieces;
  for (const Json& token : bytes.at("tokens")) vocab[token.get<std::string>()] = vocab.size();
  for (const Json& merge : bytes.at("merges")) merges += merge.get<std::string>() + "\n";
  for (const Json& piece : words.at("pieces")) pieces += piece.get<std::string>() + "\n";
  const Json end{{"id", vocab.size() - 1}, {"content", "<|endoftext|>"}, {"special", true}};
  const Json file{{"added_tokens", {end}},
                  {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", true}}},
                  {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", bytes.at("merges")}}}};
  std::string ranks;
  for (int byte = 0; byte < 256; ++byte)
    ranks += fmt::format("{} {}\n", files::base64(std::string(1, static_cast<char>(byte))), byte);
  write_file(to / "json", behind(0, bytes_of(file.dump())));
  write_file(to / "tiktoken", behind(0, bytes_of(ranks + files::base64("st") + " 256\n")));
  write_file(to / "vocab", behind(1, bytes_of(vocab.dump() + std::string(1, '\0') + merges)));
  write_file(to / "pieces", behind(2, bytes_of(pieces)));
  write_file(to / "bytes", behind(3, bytes_of(bytes.dump())));
  write_file(to / "words", behind(3, bytes_of(words.dump())));
}

void questions(const fs::path& folder) {
  using Json = nlohmann::json;
  const Json answer{{"text", "tea"}, {"answer_start", 2}};
  const Json none{{"id", "2"}, {"question", "a?"}, {"answers", Json::array()}, {"is_impossible", true}};
  const Json qas{{{"id", "1"}, {"question", "tea?"}, {"answers", Json::array({answer})}}, none};
  const Json paragraph{{"context", "\u00e9 tea at tea."}, {"qas", qas}};
  const Json file{{"data", {{{"title", "t"}, {"paragraphs", Json::array({paragraph})}}}}};
  write_file(folder / "questions" / "squad", bytes_of(file.dump()));
}

void plans(const fs::path& folder) {
  using namespace amp::plan;
  Graph graph;
  graph.ops.push_back({.key = {"(input)", ""}, .kind = Kind::input, .results = {{.elements = 8}}});
  graph.ops.push_back({.key = {"fc.weight", ""}, .kind = Kind::parameter, .results = {{.elements = 16}}});
  graph.ops.push_back({.key = {"fc", "linear"},
                       .rule = CastRule::lower,
                       .reads = {{0, 0}, {1, 0}},
                       .results = {{.elements = 8, .storage_ns = 40, .cast_ns = 30}},
                       .ns = {.f32 = 4000, .low = 1000}});
  graph.ops.push_back(
      {.key = {"loss", "mean"}, .rule = CastRule::fp32, .reads = {{2, 0}}, .results = {{.elements = 1}}});
  for (const DType low : {DType::bf16, DType::f16}) {
    const Assignment types = rules(graph);
    PrecisionPlan plan =
        plan_of(graph, types, std::vector<Why>(4, Why::gain), low, true, std::vector<bool>(4));
    plan.model.digest = model_digest(graph, {"fc|Linear|weight[2,8]"});
    plan.shapes = {shapes_digest(graph), 1};
    plan.machine = {.device = "cpu",
                    .libraries = {{"a", "1"}},
                    .bytes_per_second = 1e10,
                    .launch_ns = 900,
                    .flops = {{"f32", 1e9}}};
    plan.policy = {.name = "cut", .must = {{"^fc", low}}};
    if (low == DType::f16) plan.scale = PrecisionPlan::Scale{.start = 13, .window = {9, 15}};
    write_file(folder / "plan" / std::string(name_of(low)), bytes_of(plan_text({plan})));
    PhasePlans phases(2, plan);
    phases[0].model.phase = "discriminator";
    phases[1].model.phase = "generator";
    write_file(folder / "plan" / fmt::format("phases-{}", name_of(low)), bytes_of(plan_text(phases)));
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    fmt::print(stderr, "usage: fuzz_seeds FOLDER\n");
    return 2;
  }
  const fs::path folder = arguments[1];
  arrays(folder);
  images(folder);
  boxes(folder);
  tensors(folder);
  states(folder);
  configurations(folder);
  texts(folder);
  pairs_and_pieces(folder);
  tokenizers(folder);
  questions(folder);
  plans(folder);
  return 0;
}
