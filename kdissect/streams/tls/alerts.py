"""Alerts by number (RFC 8446, section 6, and the registry of IANA)."""

CLOSE_NOTIFY, USER_CANCELED, NO_RENEGOTIATION = 0, 90, 100
HARMLESS = {CLOSE_NOTIFY, USER_CANCELED, NO_RENEGOTIATION}
"""They end or decline something in good order; all others say that something is wrong."""

ALERTS = {
    CLOSE_NOTIFY: "close_notify",
    10: "unexpected_message",
    20: "bad_record_mac",
    21: "decryption_failed",
    22: "record_overflow",
    30: "decompression_failure",
    40: "handshake_failure",
    41: "no_certificate",
    42: "bad_certificate",
    43: "unsupported_certificate",
    44: "certificate_revoked",
    45: "certificate_expired",
    46: "certificate_unknown",
    47: "illegal_parameter",
    48: "unknown_ca",
    49: "access_denied",
    50: "decode_error",
    51: "decrypt_error",
    60: "export_restriction",
    70: "protocol_version",
    71: "insufficient_security",
    80: "internal_error",
    86: "inappropriate_fallback",
    USER_CANCELED: "user_canceled",
    NO_RENEGOTIATION: "no_renegotiation",
    109: "missing_extension",
    110: "unsupported_extension",
    111: "certificate_unobtainable",
    112: "unrecognized_name",
    113: "bad_certificate_status_response",
    114: "bad_certificate_hash_value",
    115: "unknown_psk_identity",
    116: "certificate_required",
    117: "general_error",
    120: "no_application_protocol",
    121: "ech_required",
}


def alert_name(number: int) -> str:
    """Return an alert's name, or its number where it has none."""
    return ALERTS.get(number, f"alert_{number}")
