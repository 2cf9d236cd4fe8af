"""One packet, from its link layer to the TCP payload."""
