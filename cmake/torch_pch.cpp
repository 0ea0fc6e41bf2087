// Carries the precompiled header of LibTorch; see DtrainModule.cmake.
