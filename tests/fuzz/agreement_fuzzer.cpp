// Boards of ranks of other hosts, whatever they say, at one that shrinks; and why such ranks gave up, in
// words.
#include <fuzzer/FuzzedDataProvider.h>

#include <cstring>

#include "comm/agreement.h"
#include "comm/exchange.h"

namespace floe {
namespace {

const std::vector<std::vector<uint32_t>> kLayouts = {{0, 1}, {0, 0, 2, 2}, {0, 1, 2, 3}, {0, 1, 0, 1, 4, 4}};

uint64_t number(FuzzedDataProvider& input) {
  return input.ConsumeBool() ? input.ConsumeIntegralInRange<uint64_t>(0, 4) << 16 |
                                   input.ConsumeIntegralInRange<uint64_t>(0, 5)
                             : input.ConsumeIntegral<uint64_t>();
}

RankSet some_ranks(FuzzedDataProvider& input) {
  RankSet set;
  set.words[0] =
      input.ConsumeBool() ? input.ConsumeIntegralInRange<uint64_t>(0, 63) : input.ConsumeIntegral<uint64_t>();
  set.words.back() = input.ConsumeBool() ? 0 : UINT64_MAX;
  return set;
}

Decision some_decision(FuzzedDataProvider& input) { return {number(input), some_ranks(input)}; }

Board some_board(FuzzedDataProvider& input) {
  Board board;
  board.calls = number(input);
  board.presence = input.ConsumeIntegralInRange<uint64_t>(0, 5);
  board.gone = some_ranks(input);
  board.absent = some_ranks(input);
  board.promised = number(input);
  board.accepted = number(input);
  board.accepted_decision = some_decision(input);
  board.ballot = number(input);
  board.stage = input.ConsumeIntegralInRange<uint64_t>(0, 5);
  board.proposal = some_decision(input);
  board.ready = number(input);
  board.decided = input.ConsumeBool() ? Decision{} : some_decision(input);
  return board;
}

void play(FuzzedDataProvider& input) {
  const auto& hosts = kLayouts[input.ConsumeIntegralInRange<size_t>(0, kLayouts.size() - 1)];
  const auto size = static_cast<uint32_t>(hosts.size());
  const uint32_t self = input.ConsumeIntegralInRange<uint32_t>(0, size - 1);
  HostVote vote{};
  Agreement agreement(self, hosts, vote);
  Clock::time_point now{};
  Decision decided;
  while (input.remaining_bytes() != 0) {
    const uint32_t other = (self + input.ConsumeIntegralInRange<uint32_t>(1, size - 1)) % size;
    switch (input.ConsumeIntegralInRange<int>(0, 6)) {
      case 0: agreement.enter(); break;
      case 1: agreement.give_up(); break;
      case 2: agreement.set_gone(other, input.ConsumeBool()); break;
      case 3: agreement.hear(other, some_board(input)); break;
      default: agreement.step(now += Millis(input.ConsumeIntegralInRange<int>(0, 2000)));
    }
    if (const Decision next = agreement.to_wire_up(); next.attempt != 0) {
      if (!next.ranks.has(self)) __builtin_trap();
      agreement.begin(next.attempt);
      if (input.ConsumeBool()) agreement.ready(next.attempt);
      if (agreement.to_wire_up().attempt == next.attempt) __builtin_trap();  // once is enough
    }
    // It stays what it is, and the questions that shrink asks have answers.
    if (decided.attempt != 0 && !(agreement.decided() == decided)) __builtin_trap();
    decided = agreement.decided();
    if (agreement.coordinator() >= size || agreement.who_gave_up() >= size ||
        agreement.absent().size() >= size)
      __builtin_trap();
    (void)agreement.can_decide();
    (void)agreement.broken(agreement.board().proposal.ranks);
  }
}

}  // namespace
}  // namespace floe

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto failure = floe::parse_failure(text)) {
    const auto again = floe::parse_failure(floe::failure_text(*failure));
    if (!again || again->code() != failure->code() || failure->ok()) __builtin_trap();
  }
  FuzzedDataProvider input(data, size);
  floe::play(input);
  return 0;
}
