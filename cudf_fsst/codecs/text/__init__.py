"""What all codecs of text share: cuts, tiles, row lengths, reads, questions (docs/format.md, sections 1-4)."""
