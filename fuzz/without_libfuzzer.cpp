// Inputs by chance for the targets of kernels.cpp, where there is no libFuzzer: `make fuzz-arm`.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int main() {
    constexpr int inputs = 20'000;
    constexpr size_t most_bytes = 2048;
    std::mt19937_64 random(1);
    for (int i = 0; i < inputs; ++i) {
        std::vector<uint8_t> input(1 + random() % most_bytes);
        for (uint8_t& byte : input) byte = static_cast<uint8_t>(random());
        input[0] = static_cast<uint8_t>(i);  // which chooses the target: all in turn
        LLVMFuzzerTestOneInput(input.data(), input.size());
    }
    std::printf("%d inputs, no difference\n", inputs);
}
