"""The capture as something that can be played: requests in order, what may go out at all and where to, who waits for whom."""
