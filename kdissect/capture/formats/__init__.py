"""Capture file formats: pcap and pcapng records, whole-file compression, and what is not a capture."""
