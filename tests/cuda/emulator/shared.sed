# Shared variables as the emulator keeps them: see `shared` in include/cuda_runtime.h. What is not one declaration on
# one line does not compile.
s/extern __shared__ ([A-Za-z_0-9:]+) ([A-Za-z_0-9]+)\[\];/auto* const \2 = static_cast<\1*>(::cuda_emulator::dynamic_shared());/
s/__shared__ ([^;]*[^; ]) ([A-Za-z_0-9]+)((\[[^;]*\])?);/auto\& \2 = ::cuda_emulator::shared<\1\3>([] {});/
