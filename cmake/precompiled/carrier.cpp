// Carries a precompiled header; see DtrainModule.cmake.
