// Cutting a piece at its matches, in the ways of the reference ("SplitDelimiterBehavior").
#ifndef ITG_TEXT_SPLITTER_H
#define ITG_TEXT_SPLITTER_H

#include "text/buffers.h"

typedef enum itg_split_behavior {
  ITG_SPLIT_REMOVED,              // Matches are dropped.
  ITG_SPLIT_ISOLATED,             // Matches are pieces of their own.
  ITG_SPLIT_MERGED_WITH_PREVIOUS, // A match joins the part before it.
  ITG_SPLIT_MERGED_WITH_NEXT,     // A match joins the part after it.
  ITG_SPLIT_CONTIGUOUS,           // Adjacent matches become one piece.
} itg_split_behavior;

// Takes the segments of one piece from left to right, matches and what is between them, and adds the resulting pieces.
typedef struct itg_splitter {
  itg_pieces *pieces;
  itg_piece parent;
  itg_split_behavior behavior;
  bool invert; // What is between the matches counts as the matches.
  bool has_pending, pending_match, previous_match;
  size_t start, end; // Of the pending part, relative to the parent.
} itg_splitter;

void itg_splitter_begin(itg_splitter *splitter, itg_pieces *pieces, itg_piece parent);
ITG_MUST_USE itg_status itg_splitter_segment(itg_splitter *splitter, size_t start, size_t end, bool match,
                                             itg_diagnostic *diagnostic);
ITG_MUST_USE itg_status itg_splitter_finish(itg_splitter *splitter, itg_diagnostic *diagnostic);

#endif
