// Cutting a piece at its matches.
#include "text/splitter.h"

void itg_splitter_begin(itg_splitter *splitter, itg_pieces *pieces, itg_piece parent) {
  splitter->pieces = pieces;
  splitter->parent = parent;
  splitter->has_pending = splitter->previous_match = false;
}

static itg_status add(itg_splitter *splitter, size_t start, size_t end, itg_diagnostic *diagnostic) {
  const itg_piece piece = {splitter->parent.offset + start, end - start, -1, splitter->parent.at_start && start == 0};
  return itg_pieces_add(splitter->pieces, piece, diagnostic);
}

itg_status itg_splitter_finish(itg_splitter *splitter, itg_diagnostic *diagnostic) {
  if (!splitter->has_pending) return ITG_OK;
  splitter->has_pending = false;
  return add(splitter, splitter->start, splitter->end, diagnostic);
}

itg_status itg_splitter_segment(itg_splitter *splitter, size_t start, size_t end, bool match,
                                itg_diagnostic *diagnostic) {
  const bool before = splitter->previous_match;
  bool join = false;
  match ^= splitter->invert;
  switch (splitter->behavior) {
  case ITG_SPLIT_REMOVED: return match ? ITG_OK : add(splitter, start, end, diagnostic);
  case ITG_SPLIT_ISOLATED: return add(splitter, start, end, diagnostic);
  case ITG_SPLIT_MERGED_WITH_PREVIOUS: join = match && !before; break;
  case ITG_SPLIT_MERGED_WITH_NEXT: join = !match && splitter->pending_match; break;
  case ITG_SPLIT_CONTIGUOUS: join = match == before; break;
  }
  splitter->previous_match = match;
  if (join && splitter->has_pending) {
    splitter->end = end;
    splitter->pending_match = false;
    return ITG_OK;
  }
  ITG_TRY(itg_splitter_finish(splitter, diagnostic));
  splitter->start = start;
  splitter->end = end;
  splitter->has_pending = true;
  splitter->pending_match = match;
  return ITG_OK;
}
