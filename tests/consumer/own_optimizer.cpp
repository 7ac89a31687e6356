// `tandem` with an optimizer from outside its tree: signs of a momentum, and a step size of each row.
//   own_optimizer train config.json
#include <tandem/cli/commands.h>
#include <tandem/tandem.h>

namespace consumer {

using tandem::Tensor;

struct RowSignOptions {
  std::optional<double> lr{};  // 1e-3 when neither this nor a schedule is given
  double weight_decay = 0.0;
  double momentum = 0.9;
  std::vector<tandem::optim::ParameterGroup> groups{};
};

//   m ← momentum·m + (1-momentum)·g
//   s ← 0.9·s + 0.1·rms of the row's g, from 1 on
//   w ← w·(1 - lr·weight_decay) - lr·s·sign(m)
class RowSign : public tandem::optim::Optimizer {
 public:
  static const tandem::optim::OptimizerRegistry::Entry& entry() {
    static const tandem::optim::OptimizerRegistry::Entry entry =
        tandem::optim::optimizer_entry<RowSign, RowSignOptions>(
            {.name = "row_sign", .help = "signs of a momentum, with a step size of each row", .lr = 1e-3},
            [](tandem::options::Describe<RowSignOptions>& keys) {
              keys.key("momentum", &RowSignOptions::momentum, "share of the last update kept",
                       {.min = 0.0, .max = 1.0, .open_max = true, .keyword = "auto"});
            });
    return entry;
  }

  explicit RowSign(std::vector<tandem::Parameter> parameters, const RowSignOptions& options = {})
      : Optimizer(std::move(parameters), entry(), options), momentum_(options.momentum) {}

  std::vector<tandem::optim::StateTensor> state_of(const Entry& entry) const override {
    const tandem::Shape& shape = entry.parameter.value().shape();
    return {{"momentum", shape}, {"row_size", {shape[0], 1}, 1.0}};
  }

  void update(tandem::optim::UpdateContext& context) const override {
    for (tandem::optim::UpdatedParameter& p : context.parameters()) {
      const Tensor& weight = p.weight();
      const tandem::Shape rows{weight.size(0), weight.numel() / weight.size(0)};
      const Tensor gradient = p.gradient(), lr = p.lr();
      const Tensor momentum = lerp(p.state("momentum"), gradient, 1.0 - momentum_);
      const Tensor rms = sqrt(mean(square(gradient.viewed(rows)), {1}, true));
      const Tensor size = lerp(p.state("row_size"), rms, 0.1);
      p.set_state("momentum", momentum);
      p.set_state("row_size", size);
      const Tensor step = (lr * size * sign(momentum.viewed(rows))).viewed(weight.shape());
      p.set_weight(weight * (1.0 - lr * p.weight_decay()) - step);
    }
  }

 private:
  double momentum_;
};

}  // namespace consumer

int main(int argc, char** argv) {
  tandem::optim::optimizers().add(consumer::RowSign::entry());
  return tandem::cli::run(argc, argv);
}
