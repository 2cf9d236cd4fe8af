"""Record batches and message sets: headers, records, compression and checksums."""
