// cuBLASLt wrapper. cuBLASLt is column-major; a row-major matrix read as column-major is its transpose. So c
// = op(a)·op(b) becomes c^T = op(b)^T·op(a)^T, with swapped operands and the same transpose flags. The bias,
// one value per column of c, becomes one per row, as in the library's epilogue.
#include <cuda_runtime.h>
#include <fmt/format.h>

#include <cstdint>
#include <limits>

#include "core/cuda/blas.h"
#include "core/cuda/capture.h"
#include "core/cuda/launch.h"
#include "core/error.h"

namespace tandem::cuda {

namespace {

constexpr std::size_t kMostWorkspace = std::size_t{32} << 20;
constexpr int kMostAlgorithms = 8;  // maximum number of heuristic results
// cuBLASLt 13.1 rejects less alignment (CUBLAS_STATUS_INVALID_VALUE), contrary to its header.
constexpr std::size_t kWorkspaceAlignment = 256;

void check(cublasStatus_t status, std::string_view call, const Product* product = nullptr) {
  if (status == CUBLAS_STATUS_SUCCESS) [[likely]]
    return;
  throw VendorError("cublas", fmt::format("{}: {}: {}{}{}", call, cublasLtGetStatusName(status),
                                          cublasLtGetStatusString(status), product ? ": " : "",
                                          product ? to_string(*product) : std::string()));
}

cudaDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return CUDA_R_64F;
    case DType::f32:
      return CUDA_R_32F;
    case DType::f16:
      return CUDA_R_16F;
    case DType::bf16:
      return CUDA_R_16BF;
    default:
      fail_not_floating(dtype);
  }
}

std::uint32_t alignment_of(const void* address) {
  std::uint32_t bytes = 16;
  while (reinterpret_cast<std::uintptr_t>(address) % bytes != 0) bytes /= 2;
  return bytes;
}

template <class T>
void set(cublasLtMatmulDescOpaque_t& operation, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  check(cublasLtMatmulDescSetAttribute(&operation, attribute, &value, sizeof(value)),
        "cublasLtMatmulDescSetAttribute");
}

template <class T>
void set(cublasLtMatmulPreferenceOpaque_t& preference, cublasLtMatmulPreferenceAttributes_t attribute,
         const T& value) {
  check(cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof(value)),
        "cublasLtMatmulPreferenceSetAttribute");
}

// A batch of row-major matrices [rows, columns], `stride` elements apart, with rows `pitch` elements apart.
void describe(cublasLtMatrixLayoutOpaque_t& layout, DType dtype, Index rows, Index columns, Index pitch,
              Index batch, Index stride) {
  check(cublasLtMatrixLayoutInit(&layout, type_of(dtype), static_cast<std::uint64_t>(columns),
                                 static_cast<std::uint64_t>(rows), pitch),
        "cublasLtMatrixLayoutInit");
  if (batch == 1) return;
  const std::int32_t count = static_cast<std::int32_t>(batch);
  const std::int64_t offset = stride;
  check(cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof(count)),
        "cublasLtMatrixLayoutSetAttribute");
  check(cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &offset,
                                         sizeof(offset)),
        "cublasLtMatrixLayoutSetAttribute");
}

// Name of an algorithm from cuBLASLt's numeric attributes.
std::string name_of(const cublasLtMatmulAlgo_t& algorithm) {
  struct Part {
    const char* name;
    cublasLtMatmulAlgoConfigAttributes_t attribute;
    std::size_t bytes;
  };
  constexpr Part kParts[] = {{"algorithm", CUBLASLT_ALGO_CONFIG_ID, 4},
                             {"tile", CUBLASLT_ALGO_CONFIG_TILE_ID, 4},
                             {"stages", CUBLASLT_ALGO_CONFIG_STAGES_ID, 4},
                             {"split-k", CUBLASLT_ALGO_CONFIG_SPLITK_NUM, 4},
                             {"reduction", CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, 4},
                             {"swizzling", CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, 4},
                             {"custom", CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, 4},
                             {"inner", CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, 2},
                             {"cluster", CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, 2}};
  std::string name = blas_version() + ":";
  for (const Part& part : kParts) {
    std::uint32_t value = 0;
    std::size_t written = 0;
    if (cublasLtMatmulAlgoConfigGetAttribute(&algorithm, part.attribute, &value, part.bytes, &written) ==
        CUBLAS_STATUS_SUCCESS)
      name += fmt::format(" {} {}", part.name, value);
  }
  return name;
}

}  // namespace

std::string to_string(const Product& p) {
  return fmt::format("{} x {} [{},{}]{}·[{},{}]{} -> {}{}{}{}", p.batch, name_of(p.in), p.m, p.k,
                     p.transpose_a ? " (stored transposed)" : "", p.k, p.n,
                     p.transpose_b ? " (stored transposed)" : "", name_of(p.out), p.bias ? " + bias" : "",
                     p.accumulate ? " + c" : "", p.rows_text());
}

std::string blas_version() {
  const std::size_t version =
      cublasLtGetVersion();  // encoded as 10000·major + 100·minor + patch since version 12
  return fmt::format("cuBLASLt {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

Blas::Blas(CudaBackend& backend) : backend_(backend) {
  const RelaxedCapture relaxed;
  check(cublasLtCreate(&handle_), "cublasLtCreate");
}

Blas::~Blas() { cublasLtDestroy(handle_); }

std::unique_ptr<Blas::Plan> Blas::make_plan(const Product& p, const Alignment& alignment, bool tf32) const {
  auto plan = std::make_unique<Plan>();
  const bool f64 = p.in == DType::f64;
  const cublasComputeType_t compute = f64    ? CUBLAS_COMPUTE_64F
                                      : tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                             : CUBLAS_COMPUTE_32F;
  check(cublasLtMatmulDescInit(&plan->operation, compute, f64 ? CUDA_R_64F : CUDA_R_32F),
        "cublasLtMatmulDescInit", &p);
  const cublasOperation_t left = p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t right = p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  set(plan->operation, CUBLASLT_MATMUL_DESC_TRANSA, left);
  set(plan->operation, CUBLASLT_MATMUL_DESC_TRANSB, right);
  if (p.bias) {
    set(plan->operation, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    // The search uses only the alignment of the bias address; each call sets the real address.
    const void* const sixteen = reinterpret_cast<const void*>(std::uintptr_t{16});
    set(plan->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, sixteen);
  }
  describe(plan->left, p.in, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n, p.pitch_b(), p.batch,
           p.stride_b);
  describe(plan->right, p.in, p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k, p.pitch_a(), p.batch,
           p.stride_a);
  describe(plan->result, p.out, p.m, p.n, p.pitch_c(), p.batch, p.m * p.pitch_c());

  cublasLtMatmulPreferenceOpaque_t preference;
  check(cublasLtMatmulPreferenceInit(&preference), "cublasLtMatmulPreferenceInit");
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMostWorkspace);
  // Partial sums must not be rounded to the type of c, and must be added in a fixed order.
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      std::uint32_t{CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment.b);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment.a);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment.c);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment.c);

  cublasLtMatmulHeuristicResult_t results[kMostAlgorithms] = {};
  int found = 0;
  const RelaxedCapture relaxed;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle_, &plan->operation, &plan->left, &plan->right, &plan->result,
                                     &plan->result, &preference, kMostAlgorithms, results, &found);
  // Both mean that there is no algorithm; the latter is returned for unsupported combinations of types.
  if (status != CUBLAS_STATUS_NOT_SUPPORTED && status != CUBLAS_STATUS_INVALID_VALUE)
    check(status, "cublasLtMatmulAlgoGetHeuristic", &p);
  for (int i = 0; status == CUBLAS_STATUS_SUCCESS && i < found; ++i) {
    if (results[i].state == CUBLAS_STATUS_SUCCESS)
      plan->algorithms.push_back({results[i].algo, results[i].workspaceSize, name_of(results[i].algo)});
  }
  plan->status = status != CUBLAS_STATUS_SUCCESS ? status
                 : !plan->algorithms.empty()     ? CUBLAS_STATUS_SUCCESS
                 : found > 0                     ? results[0].state
                                                 : CUBLAS_STATUS_NOT_SUPPORTED;
  return plan;
}

cublasStatus_t Blas::compute(const Product& p, Plan& plan, std::size_t number, const void* a, const void* b,
                             void* c) const {
  const Algorithm& algorithm = plan.algorithms[number];
  // The caching allocator keeps this memory between calls.
  Tensor memory;
  void* workspace = nullptr;
  if (algorithm.workspace != 0) {
    std::size_t room = algorithm.workspace + kWorkspaceAlignment - CachingAllocator::kAlignment;
    memory = backend_.workspace({static_cast<Index>(room)}, DType::u8);
    workspace = memory.raw();
    std::align(kWorkspaceAlignment, algorithm.workspace, workspace, room);
  }
  constexpr double kOne64 = 1.0, kZero64 = 0.0;
  constexpr float kOne32 = 1.0f, kZero32 = 0.0f;
  const bool f64 = p.in == DType::f64;
  const void* const one = f64 ? static_cast<const void*>(&kOne64) : &kOne32;
  const void* const zero = f64 ? static_cast<const void*>(&kZero64) : &kZero32;
  return cublasLtMatmul(handle_, &plan.operation, one, b, &plan.left, a, &plan.right,
                        p.accumulate ? one : zero, c, &plan.result, c, &plan.result, &algorithm.code,
                        workspace, algorithm.workspace, backend_.stream());
}

bool Blas::multiply(const Product& p, const void* a, const void* b, const void* bias, void* c,
                    bool required) {
  ensure(p.batch <= std::numeric_limits<std::int32_t>::max(), "matmul", "batch size {} exceeds 2^31 - 1",
         p.batch);
  const Alignment alignment{alignment_of(a), alignment_of(b), alignment_of(c)};
  const bool tf32 = p.in == DType::f32 && backend_.rules().allow_tf32;
  Plan& plan = plans_.get(
      KernelKey(p.batch, p.m, p.n, p.k, p.transpose_a, p.transpose_b, p.stride_a, p.stride_b, p.pitch_a(),
                p.pitch_b(), p.pitch_c(), p.in, p.out, p.bias, tf32, alignment.a, alignment.b, alignment.c),
      [&] { return make_plan(p, alignment, tf32); });
  if (plan.status != CUBLAS_STATUS_SUCCESS) {
    if (required) check(plan.status, "cublasLtMatmulAlgoGetHeuristic", &p);
    return false;
  }
  if (p.bias) set(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);

  if (!plan.timed && plan.algorithms.size() > 1 && may_time()) [[unlikely]] {
    std::vector<std::string> names;
    for (const Algorithm& each : plan.algorithms) names.push_back(each.name);
    plan.chosen = choose(p, alignment, tf32, names, c, [&](std::size_t algorithm, void* to) {
      return compute(p, plan, algorithm, a, b, to) == CUBLAS_STATUS_SUCCESS;
    });
    plan.timed = true;
  }
  const bool first = backend_.rules().deterministic || !backend_.rules().tune;
  check(compute(p, plan, first ? 0 : plan.chosen, a, b, c), "cublasLtMatmul", &p);
  return true;
}

}  // namespace tandem::cuda
