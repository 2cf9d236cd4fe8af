"""What a request says, in terms of the target: values by role, versions, record batches. Pure functions of trees and bytes."""
