#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "dtrain/io/pictures/byte_source.hpp"

namespace dtrain {

// A DICOM file may hold several frames, as ultrasound loops, tomosynthesis and enhanced CT do. Its elements are walked
// here, without DCMTK and without the pixels, to count them and to cut one out.

/// Whether the file begins as DICOM files do: 128 bytes, then "DICM". Those without are taken to have one frame.
bool begins_as_dicom(const ByteSource& source);

/// NumberOfFrames; 1 where it is absent, no number from 1 to 65,535, more than can be in the file, or the elements
/// cannot be walked: decoding the file reports that. A few small reads.
int64_t count_dicom_frames(const ByteSource& source);

/// A DICOM file of frame `frame` (from 1) alone, with the elements before the pixels except those that speak of each
/// frame (PerFrameFunctionalGroupsSequence). `name` is for messages. Throws DataError if there is no such frame, if the
/// elements are damaged, and for what cannot be cut: files that are deflated as a whole, pixels of 1 bit, compressed
/// ones that do not say where a frame begins.
std::vector<std::byte> dicom_frame_alone(const ByteSource& source, int64_t frame, const std::string& name);

}  // namespace dtrain
