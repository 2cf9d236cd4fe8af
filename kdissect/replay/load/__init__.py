"""The capture as a sequence to replay: requests in order, which of them may be sent, and what each depends on."""
