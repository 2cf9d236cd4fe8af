"""What a request says, put into the target's words: values by role, versions, record batches. Pure functions of trees and bytes."""
