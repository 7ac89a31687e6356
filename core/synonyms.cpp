#include "core/synonyms.h"

#include <algorithm>
#include <cctype>

namespace tandem {

namespace {

// One line per group, squeezed; a word may be in several. Names of Tandem come first, in order of preference.
constexpr const char* kSynonyms[] = {
    // devices and types
    "cuda gpu nvidia cuda0 gpu0",
    "ampfp16 fp16 lower half float16 f16 16 16mixed halfprecision",
    "ampbf16 bf16 lower bfloat16 amp mixed mixedprecision bf16mixed auto",
    "fp32 float32 float single full f32 32 32true tf32",
    "none off false no disabled",
    "on true yes enabled",
    "nhwc hwc channelslast",
    "nchw chw channelsfirst",
    "stochastic random",
    // data and transforms
    "idx mnist emnist kmnist",
    "fashionmnist fmnist",
    "cifar10 cifar",
    "imagefolder imagenet folder images directory jpeg jpg png",
    "npy npz numpy array arrays",
    "synthetic random fake fakedata dummy noise",
    "horizontalflip flip hflip fliplr mirror randomflip randomhorizontalflip",
    "verticalflip vflip flipud randomverticalflip",
    "randomcrop crop",
    "randomresizedcrop rrc inceptioncrop",
    "centercrop centrecrop",
    "colorjitter colourjitter jitter",
    "cutout randomerasing erasing erase",
    "normalise normalize normalization normalisation standardize standardise",
    // losses, metrics and error handling
    "crossentropy ce nll nllloss crossentropyloss categoricalcrossentropy sparsecategoricalcrossentropy",
    "bcewithlogits bce binarycrossentropy bceloss bcewithlogitsloss",
    "mse l2 mseloss squarederror meansquarederror",
    "focal focalloss",
    "accuracy acc top1 valaccuracy valacc testaccuracy testacc",
    "loss valloss testloss",
    "top5 top5accuracy top5acc",
    "stop raise abort fail error halt",
    "continue ignore warn",
    "drop skip ignore",
    "retry repeat again",
    // optimizers and schedules
    "sgd momentum nesterov gd gradientdescent",
    "constant fixed const none",
    "cosine cos cosineannealing cosineannealinglr cosinedecay",
    "onecycle 1cycle onecyclelr",
    "polynomial poly linear lineardecay",
    "multistep multisteplr piecewise",
    "step steplr stepdecay",
    "exponential exp exponentiallr",
    "torch pytorch gradscaler",
    // layers
    "linear dense fc fullyconnected",
    "conv2d conv convolution convolution2d",
    "convtranspose2d deconv deconvolution deconv2d upconv conv2dtranspose convtranspose transposedconv",
    "batchnorm bn batchnorm2d batchnorm1d batchnormalization batchnormalisation",
    "layernorm ln layernormalization layernormalisation",
    "groupnorm gn groupnormalization",
    "maxpool2d maxpool pool maxpooling maxpooling2d",
    "avgpool2d avgpool averagepool averagepooling averagepooling2d",
    "globalavgpool2d gap globalpool globalavgpool globalaveragepool globalaveragepooling "
    "globalaveragepooling2d",
    "average avg mean",
    "max maximum",
    "upsample interpolate upsampling",
    "bilinear linear",
    "nearest nearestneighbor nearestneighbour",
    "add residual skip sum",
    "concat cat concatenate",
    "basicblock resblock residualblock",
    "silu swish",
    "hardswish hswish",
    "hardsigmoid hsigmoid",
    "leakyrelu lrelu",
    "sigmoid logistic",
    "tanh approximate approx",
    "erf exact",
    "kaimingnormal he henormal kaiming msra",
    "kaiminguniform heuniform",
    "xavieruniform xavier glorot glorotuniform",
    "xaviernormal glorotnormal",
    "truncatednormal truncnormal normal",
    "standard default pytorch",
    // commands
    "eval evaluate evaluation test",
    "predict infer inference classify",
    "train fit run",
    "ls list",
    "show print",
    "bench benchmark profile",
    // keys
    "lr learningrate stepsize",
    "batchsize batch bs minibatch",
    "epochs epoch numepochs maxepochs nepochs",
    "workers numworkers nworkers",
    "threads numthreads nthreads",
    "device gpu accelerator",
    "precision amp fp16 bf16 mixedprecision",
    "data dataset",
    "model network net arch architecture",
    "schedule scheduler lrscheduler lrschedule",
    "loss criterion lossfunction lossfn",
    "optimizer optimiser optim",
    "weightdecay wd",
    "clipnorm gradclip clip clipgradnorm gradclipnorm gradientclip gradientclipping maxgradnorm",
    "accumulate gradientaccumulation accumulation accumulationsteps gradaccum accumgrad",
    "warmupsteps warmup",
    "validationsize valsize validsize numval validationsplit valsplit valfraction validationfraction",
    "testfraction testsplit holdout",
    "augment transforms transform augmentation augmentations",
    "path root dir folder datadir datapath",
    "rundir out output outdir outputdir logdir savedir",
    "initfrom pretrained finetune weights",
    "seed randomseed",
    "kernel kernelsize ksize filtersize",
    "outchannels filters",
    "outfeatures units",
    "imagesize imgsize resolution",
    "tensorboard tb",
    "layout dataformat order",
};

// The words of a line, in order.
std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t end = std::min(line.find(' ', at), line.size());
    words.emplace_back(line.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

}  // namespace

std::string squeezed(std::string_view word) {
  std::string result;
  for (const char letter : word) {
    const auto c = static_cast<unsigned char>(letter);
    if (std::isalnum(c)) result += static_cast<char>(std::tolower(c));
  }
  return result;
}

std::vector<std::string> synonyms_of(std::string_view word) {
  std::vector<std::string> result{squeezed(word)};
  for (const std::string_view line : kSynonyms) {
    const std::vector<std::string> words = words_of(line);
    if (std::ranges::count(words, result.front()) == 0) continue;
    for (const std::string& other : words)
      if (other != result.front()) result.push_back(other);
  }
  return result;
}

}  // namespace tandem
