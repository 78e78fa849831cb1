#include "api/footprint.h"

#include <algorithm>

#include "api/arguments.h"

namespace floe::api {

Result<Blocks> make_blocks(const Arrays& arrays, uint32_t size, floe_type_t type) {
  FLOE_TRY(check_count(0, type));
  if (!arrays.counts)
    return error(FLOE_ERR_ARGUMENT, "{} is NULL: it has one count for each of {} ranks", arrays.counts_name,
                 size);
  const uint64_t element = type_size(type), most = kMaxBytes / element;
  Blocks blocks(size);
  uint64_t next = 0;
  for (uint32_t rank = 0; rank < size; ++rank) {
    const uint64_t count = arrays.counts[rank];
    if (count == 0) continue;
    const uint64_t offset = arrays.offsets ? arrays.offsets[rank] : next;
    if (count > most || offset > most - count)
      return error(FLOE_ERR_ARGUMENT,
                   "{}[{}] is {} at offset {}: too many elements of {} (a negative number?)",
                   arrays.counts_name, rank, count, offset, type_name(type));
    next = offset + count;
    blocks[rank] = {offset * element, count * element};
  }
  return blocks;
}

std::string Footprint::Piece::text() const {
  return rank == kNone ? std::string(buffer) : fmt::format("{}'s block {}", buffer, rank);
}

void Footprint::add(Piece piece, const void* base, const Block& block) {
  if (block.bytes == 0) return;
  if (!base && problem_.ok())
    problem_ = error(FLOE_ERR_ARGUMENT, "{} is NULL, and {} has {} bytes", piece.buffer,
                     piece.rank == kNone ? "it" : fmt::format("its block {}", piece.rank), block.bytes);
  if (base == FLOE_IN_PLACE && problem_.ok()) problem_ = no_in_place(piece.buffer);
  piece.begin = reinterpret_cast<uintptr_t>(base) + block.offset;
  piece.end = piece.begin + block.bytes;
  pieces_.push_back(piece);
}

void Footprint::reads(std::string_view buffer, const void* base, const Blocks& blocks, uint32_t skip) {
  for (uint32_t rank = 0; rank < blocks.size(); ++rank)
    if (rank != skip) add({buffer, rank, false}, base, blocks[rank]);
}

void Footprint::writes(std::string_view buffer, const void* base, const Blocks& blocks) {
  for (uint32_t rank = 0; rank < blocks.size(); ++rank) add({buffer, rank, true}, base, blocks[rank]);
}

Status Footprint::check() {
  FLOE_TRY(problem_);
  std::sort(pieces_.begin(), pieces_.end(), [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
  // Of the pieces so far, those that reach furthest.
  const Piece* furthest = nullptr;
  const Piece* furthest_written = nullptr;
  for (const Piece& piece : pieces_) {
    const Piece* const other = piece.written ? furthest : furthest_written;
    if (other && other->end > piece.begin)
      return error(FLOE_ERR_ARGUMENT, "{} and {} overlap, and not as the in-place form allows", other->text(),
                   piece.text());
    if (!furthest || piece.end > furthest->end) furthest = &piece;
    if (piece.written && (!furthest_written || piece.end > furthest_written->end)) furthest_written = &piece;
  }
  return {};
}

}  // namespace floe::api
