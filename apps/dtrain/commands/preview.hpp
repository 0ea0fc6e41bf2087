#pragma once
#include <string>

#include "commands/picture_scan.hpp"
#include "dtrain/config/config.hpp"
#include "job/plan.hpp"

namespace dtrain {

/// Writes a contact sheet of the training part as the network will see it, normalisation undone, to the PNG file
/// `path`: a row for each of up to six samples, of different classes if possible, first as evaluation sees it, then as
/// five epochs would, with labels and masks. mixup and cutmix mix these samples with each other. Throws DataError if no
/// sample can be shown, otherwise like the loader and AtomicFile.
void write_preview(const Config& config, const Plan& plan, const PictureFacts& pictures, const std::string& path);

}  // namespace dtrain
