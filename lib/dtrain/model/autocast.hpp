#pragma once
#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

/// The part of LibTorch's <ATen/autocast_mode.h> that is used here. That header has all operators with it, twice, and
/// takes 13 s to compile in each file that includes it. With a LibTorch whose functions take other types nothing links,
/// and where they return others tests/support/host_gpu/autocast.cpp, which includes both headers, does not compile.
/// All of these speak of the calling thread.
namespace at::autocast {

bool is_autocast_enabled(c10::DeviceType device);
void set_autocast_enabled(c10::DeviceType device, bool enabled);
/// The type that autocast computes in, also where it is off.
c10::ScalarType get_autocast_dtype(c10::DeviceType device);
void set_autocast_dtype(c10::DeviceType device, c10::ScalarType type);
bool is_autocast_cache_enabled();
void set_autocast_cache_enabled(bool enabled);

}  // namespace at::autocast
